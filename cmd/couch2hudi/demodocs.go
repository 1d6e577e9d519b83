package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"
)

// demoShop makes the demo's documents: orders of a shop, the same ones in
// every run.
type demoShop struct {
	url  string
	rand *rand.Rand
	// gen is the generation of the winning revision that each document has.
	gen  map[int]int
	rev  map[int]string
	gone map[int]bool
}

const (
	demoSeed      = 20260105
	demoBulkBatch = 1000
)

func newDemoShop(url string) *demoShop {
	return &demoShop{url: url, rand: rand.New(rand.NewPCG(demoSeed, demoSeed)),
		gen: map[int]int{}, rev: map[int]string{}, gone: map[int]bool{}}
}

// demoDoc is one order. Replicated documents carry their revision paths.
type demoDoc struct {
	ID        string         `json:"_id"`
	Rev       string         `json:"_rev,omitempty"`
	Deleted   bool           `json:"_deleted,omitempty"`
	Revisions *demoRevisions `json:"_revisions,omitempty"`
	Type      string         `json:"type,omitempty"`
	CreatedAt string         `json:"createdAt,omitempty"`
	Customer  string         `json:"customer,omitempty"`
	Status    string         `json:"status,omitempty"`
	Total     float64        `json:"total,omitempty"`
	Items     int            `json:"items,omitempty"`
	Paid      *bool          `json:"paid,omitempty"`
	Tags      []string       `json:"tags,omitempty"`
	Address   *demoAddress   `json:"address,omitempty"`
	Note      string         `json:"note,omitempty"`
	Reason    string         `json:"reason,omitempty"`
}

type demoRevisions struct {
	Start int      `json:"start"`
	IDs   []string `json:"ids"`
}

type demoAddress struct {
	City string `json:"city"`
	Zip  string `json:"zip"`
}

// hash is a made-up revision hash.
func (d *demoShop) hash() string {
	return fmt.Sprintf("%016x%016x", d.rand.Uint64(), d.rand.Uint64())
}

// next is the document's next state in a revision tree of one branch.
func (d *demoShop) next(n int) demoDoc {
	cities := []string{"Porto", "Lyon", "Kraków", "São Paulo", "東京", "Oslo"}
	states := []string{"new", "paid", "packed", "sent", "returned"}
	day := time.Date(2024, 1, 1, 8, 0, 0, 0, time.UTC).AddDate(0, 0, n%6).Add(time.Duration(n) * time.Minute)
	paid := n%3 != 0
	doc := demoDoc{ID: fmt.Sprintf("order-%05d", n), Type: "order", CreatedAt: day.Format(time.RFC3339),
		Customer: fmt.Sprintf("customer-%03d", n%250), Status: states[min(d.gen[n], len(states)-1)],
		Total: float64(d.rand.IntN(100_000)) / 100, Items: 1 + d.rand.IntN(9), Paid: &paid,
		Address: &demoAddress{City: cities[n%len(cities)], Zip: fmt.Sprintf("%05d", n%100_000)}}
	if n%4 == 0 {
		doc.Tags = []string{"gift", "express"}[:1+n%2]
	}
	if n%97 == 0 {
		doc.Note = "näher ansehen \u2014 \"bitte\""
	}
	d.grow(&doc, n)
	return doc
}

// grow adds a revision to the document's branch.
func (d *demoShop) grow(doc *demoDoc, n int) {
	before := d.rev[n]
	d.gen[n]++
	d.rev[n] = d.hash()
	ids := []string{d.rev[n]}
	if before != "" {
		ids = append(ids, before)
	}
	doc.Rev = fmt.Sprintf("%d-%s", d.gen[n], d.rev[n])
	doc.Revisions = &demoRevisions{Start: d.gen[n], IDs: ids}
}

// conflict is a losing sibling of the document's winning revision, as
// replication brings it.
func (d *demoShop) conflict(n int) demoDoc {
	doc := demoDoc{ID: fmt.Sprintf("order-%05d", n), Type: "order", Status: "conflicting", Customer: "elsewhere",
		CreatedAt: "2024-01-03T00:00:00Z"}
	doc.Rev = "1-" + d.hash()
	doc.Revisions = &demoRevisions{Start: 1, IDs: []string{doc.Rev[2:]}}
	return doc
}

// deletion ends the document's branch, with a reason in the body.
func (d *demoShop) deletion(n int) demoDoc {
	doc := demoDoc{ID: fmt.Sprintf("order-%05d", n), Deleted: true, Reason: "cancelled by customer"}
	d.grow(&doc, n)
	d.gone[n] = true
	return doc
}

// load writes n orders, then updates, conflicts and deletions of some.
func (d *demoShop) load(ctx context.Context, n int) error {
	var docs []demoDoc
	for i := range n {
		docs = append(docs, d.next(i))
	}
	for i := 0; i < n; i += 5 {
		docs = append(docs, d.next(i))
	}
	for i := 0; i < n; i += 11 {
		docs = append(docs, d.conflict(i))
	}
	for i := 7; i < n; i += 50 {
		docs = append(docs, d.deletion(i))
	}
	return d.bulk(ctx, docs)
}

// change makes a small second round: updates, a deletion, new orders, and one
// conflict whose winner is deleted.
func (d *demoShop) change(ctx context.Context, n int) error {
	var docs []demoDoc
	for i := 1; i < min(n, 100); i += 20 {
		docs = append(docs, d.next(i))
	}
	docs = append(docs, d.deletion(2), d.deletion(0), d.next(n), d.next(n+1))
	return d.bulk(ctx, docs)
}

// bulk sends documents with the revisions that they carry.
func (d *demoShop) bulk(ctx context.Context, docs []demoDoc) error {
	for len(docs) > 0 {
		k := min(len(docs), demoBulkBatch)
		body, err := json.Marshal(map[string]any{"new_edits": false, "docs": docs[:k]})
		if err != nil {
			return fmt.Errorf("render documents: %w", err)
		}
		if err := d.send(ctx, http.MethodPost, d.url+"/_bulk_docs", body); err != nil {
			return err
		}
		docs = docs[k:]
	}
	return nil
}

func (d *demoShop) send(ctx context.Context, method, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("ask the stand-in: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("ask the stand-in: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("the stand-in answered %s to %s %s", res.Status, method, url)
	}
	return nil
}

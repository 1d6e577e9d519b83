package catalogtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// GlueServer is a stand-in for AWS Glue's server, as far as catalogs go: databases,
// tables and partitions, with Glue's limits of how much a request holds. It looks at no
// signature.
type GlueServer struct {
	mu        sync.Mutex
	databases map[string]map[string]*glueTable
	spoil     int
	requests  []string
}

type glueTable struct {
	table      map[string]any
	partitions []map[string]any
}

// Spoil answers the next n requests with an error of the server's.
func (g *GlueServer) Spoil(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.spoil = n
}

// Requests are the names of the requests since the last Requests.
func (g *GlueServer) Requests() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	list := g.requests
	g.requests = nil
	return list
}

// glueRequest is what the requests hold.
type glueRequest struct {
	Name, DatabaseName, TableName, NextToken string
	DatabaseInput, TableInput                map[string]any
	PartitionInputList                       []map[string]any
	PartitionsToGet, PartitionsToDelete      []struct{ Values []string }
	Entries                                  []struct {
		PartitionValueList []string
		PartitionInput     map[string]any
	}
}

// glueError is an error as Glue tells it.
type glueError struct{ kind, text string }

func (g *GlueServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, what, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	g.requests = append(g.requests, what)
	w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	if g.spoil > 0 {
		g.spoil--
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"__type":"InternalServiceException","Message":"spoiled"}`))
		return
	}
	var q glueRequest
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	answer, failed := g.answer(what, &q)
	if failed != nil {
		w.WriteHeader(http.StatusBadRequest)
		answer = map[string]any{"__type": failed.kind, "Message": failed.text}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (g *GlueServer) answer(what string, q *glueRequest) (any, *glueError) {
	if g.databases == nil {
		g.databases = map[string]map[string]*glueTable{}
	}
	switch what {
	case "GetDatabase":
		if g.databases[q.Name] == nil {
			return nil, &glueError{"EntityNotFoundException", "Database " + q.Name + " not found."}
		}
		return map[string]any{"Database": map[string]any{"Name": q.Name}}, nil
	case "CreateDatabase":
		name, _ := q.DatabaseInput["Name"].(string)
		if g.databases[name] != nil {
			return nil, &glueError{"AlreadyExistsException", "Database already exists."}
		}
		g.databases[name] = map[string]*glueTable{}
		return struct{}{}, nil
	}
	tables := g.databases[q.DatabaseName]
	if tables == nil {
		return nil, &glueError{"EntityNotFoundException", "Database " + q.DatabaseName + " not found."}
	}
	name := q.Name + q.TableName
	if q.TableInput != nil {
		name, _ = q.TableInput["Name"].(string)
	}
	t := tables[name]
	switch {
	case what == "CreateTable" && t == nil:
		tables[name] = &glueTable{table: q.TableInput}
		return struct{}{}, nil
	case what == "CreateTable":
		return nil, &glueError{"AlreadyExistsException", "Table already exists."}
	case t == nil:
		return nil, &glueError{"EntityNotFoundException", "Table " + name + " not found."}
	}
	switch what {
	case "GetTable":
		return map[string]any{"Table": t.table}, nil
	case "UpdateTable":
		t.table = q.TableInput
		return struct{}{}, nil
	case "DeleteTable":
		delete(tables, name)
		return struct{}{}, nil
	}
	return t.answer(what, q)
}

// Glue's limits.
const (
	gluePage   = 300 // partitions of an answer; Glue's own is larger
	glueGet    = 1000
	glueCreate = 100
	glueDelete = 25
)

func (t *glueTable) find(values []string) int {
	return slices.IndexFunc(t.partitions, func(p map[string]any) bool {
		all, _ := p["Values"].([]any)
		return slices.EqualFunc(all, values, func(a any, b string) bool { return a == b })
	})
}

func (t *glueTable) answer(what string, q *glueRequest) (any, *glueError) {
	if len(q.PartitionsToGet) > glueGet || len(q.PartitionInputList) > glueCreate || len(q.Entries) > glueCreate || len(q.PartitionsToDelete) > glueDelete {
		return nil, &glueError{"ValidationException", "too many partitions in " + what}
	}
	errs := []any{}
	failed := func(field string, values any, code string) {
		errs = append(errs, map[string]any{field: values, "ErrorDetail": map[string]any{"ErrorCode": code, "ErrorMessage": code}})
	}
	switch what {
	case "GetPartitions":
		from, _ := strconv.Atoi(q.NextToken)
		to := min(from+gluePage, len(t.partitions))
		answer := map[string]any{"Partitions": t.partitions[from:to]}
		if to < len(t.partitions) {
			answer["NextToken"] = strconv.Itoa(to)
		}
		return answer, nil
	case "BatchGetPartition":
		found := []any{}
		for _, p := range q.PartitionsToGet {
			if at := t.find(p.Values); at >= 0 {
				found = append(found, t.partitions[at])
			}
		}
		return map[string]any{"Partitions": found, "UnprocessedKeys": []any{}}, nil
	case "BatchCreatePartition":
		for _, p := range q.PartitionInputList {
			if t.find(valuesOf(p)) >= 0 {
				failed("PartitionValues", p["Values"], "AlreadyExistsException")
				continue
			}
			t.partitions = append(t.partitions, p)
		}
	case "BatchUpdatePartition":
		for _, e := range q.Entries {
			at := t.find(e.PartitionValueList)
			if at < 0 {
				failed("PartitionValueList", e.PartitionValueList, "EntityNotFoundException")
				continue
			}
			t.partitions[at] = e.PartitionInput
		}
	case "BatchDeletePartition":
		for _, p := range q.PartitionsToDelete {
			at := t.find(p.Values)
			if at < 0 {
				failed("PartitionValues", p.Values, "EntityNotFoundException")
				continue
			}
			t.partitions = slices.Delete(t.partitions, at, at+1)
		}
	default:
		return nil, &glueError{"ValidationException", "the stand-in knows no " + what}
	}
	return map[string]any{"Errors": errs}, nil
}

func valuesOf(p map[string]any) []string {
	all, _ := p["Values"].([]any)
	list := make([]string, len(all))
	for i, v := range all {
		list[i], _ = v.(string)
	}
	return list
}

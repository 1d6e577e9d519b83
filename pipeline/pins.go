package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/couch2hudi/couch2hudi/commitmeta"
	"github.com/couch2hudi/couch2hudi/hudi"
	"github.com/couch2hudi/couch2hudi/index"
	"github.com/couch2hudi/couch2hudi/table"
)

// ErrPinned means that the configuration asks for something else than what the table
// was created with.
var ErrPinned = errors.New("the table pins another setting")

// Layout is what a table pins at creation beside its ordering rule.
type Layout struct {
	// Index is "bloom" or "bucket", Buckets the number of the latter's file
	// groups in each partition.
	Index   string `json:"index"`
	Buckets int    `json:"buckets,omitempty"`
	// Scope is "partition" when a record key is unique only within its
	// partition; empty when it is in the whole table.
	Scope string `json:"scope,omitempty"`
	// Key is the column of the record key.
	Key string `json:"key"`
	// PartitionField is the document's field, PartitionFormat and Timezone how
	// its values become folders; empty for a table without partitions.
	PartitionField  string `json:"partition_field,omitempty"`
	PartitionFormat string `json:"partition_format,omitempty"`
	Timezone        string `json:"timezone,omitempty"`
	// PartitionName is the column and the folder's name.
	PartitionName string `json:"partition_name,omitempty"`
	// Moves is "stay" when a row remains in its first partition; empty when it
	// follows its document.
	Moves string `json:"moves,omitempty"`
}

func (l Layout) encode() string {
	b, err := json.Marshal(l)
	if err != nil { // strings always marshal
		panic(err)
	}
	return string(b)
}

func decodeLayout(text string) (l Layout, err error) {
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	// A setting that is not known cannot be kept to.
	d.DisallowUnknownFields()
	if err := d.Decode(&l); err != nil {
		return l, fmt.Errorf("%w: %s %s: %w; use the release of couch2hudi that wrote it, or a newer one", ErrPinned, commitmeta.ExtraLayout, text, err)
	}
	return l, nil
}

const (
	cdcOff      = "off"
	indexBloom  = "bloom"
	indexBucket = "bucket"
	scopeGlobal = "global"
	movesMove   = "move"
)

// Settings of hoodie.properties that Hudi has no name for.
const (
	propOrdering        = commitmeta.ExtraOrdering
	propScope           = "couch2hudi.index.scope"
	propPartitionField  = "couch2hudi.partition.field"
	propPartitionFormat = "couch2hudi.partition.format"
	propTimezone        = "couch2hudi.partition.timezone"
	propMoves           = "couch2hudi.partition.moves"
)

// Pins are all that a table holds on to from its creation, and each writer has
// to be started with.
type Pins struct {
	Layout
	// Ordering is the ordering rule; OrderingLeafSum when empty.
	Ordering string
	// BareFolders, PlainFolders and CDC are table.CreateOptions'.
	BareFolders, PlainFolders bool
	CDC                       hudi.CDCMode
	// Changelog says that files tell what was done to each row.
	Changelog bool
}

// Properties are the pins as settings of hoodie.properties, to create a table
// with: by Hudi's names, which its writers take from there, where there are
// some. A table that has them is pinned before its first commit.
func (p Pins) Properties() map[string]string {
	values := map[string]string{
		hudi.PropIndexType: strings.ToUpper(or(p.Index, indexBloom)),
		propOrdering:       or(p.Ordering, OrderingLeafSum),
		propScope:          or(p.Scope, scopeGlobal),
	}
	if p.Index == indexBucket {
		values[hudi.PropBuckets] = strconv.Itoa(p.Buckets)
		values[hudi.PropHashField] = p.Key
		// Spark's procedures hold the hash field against it, and fail when it is not there.
		values[hudi.PropWriteKey] = p.Key
	}
	if p.Changelog {
		values[hudi.PropChangelog] = "true"
		values[hudi.PropWriteOperation] = "true"
	}
	if p.PartitionField != "" {
		values[propPartitionField] = p.PartitionField
		values[propMoves] = or(p.Moves, movesMove)
		values[propTimezone] = p.Timezone
		if p.PartitionFormat != "" {
			values[propPartitionFormat] = p.PartitionFormat
		}
	}
	return values
}

// Pinned is what a table pins.
type Pinned struct {
	Pins
	// Known is false for a table that says nothing: one without a commit of
	// ours that was not created by this release.
	Known bool
	// Where says where it stands: a commit or hoodie.properties.
	Where string
	// stale are settings in hoodie.properties that the newest commit overrules.
	stale map[string]string
}

// ReadPins finds what a table pins. The newest commit of ours decides, since
// rows and layout change together there; before the first one hoodie.properties
// does. Settings that are absent have their defaults.
func ReadPins(ctx context.Context, v *table.View) (Pinned, error) {
	t := v.Table()
	p := Pinned{Where: whereProperties}
	text, at, found, err := v.Extra(ctx, commitmeta.ExtraLayout)
	if err != nil {
		return p, fmt.Errorf("find %s: %w", commitmeta.ExtraLayout, err)
	}
	switch props := t.Properties(); {
	case found:
		p.Known, p.Where = true, "commit "+string(at.Time)
		if p.Layout, err = decodeLayout(text); err != nil {
			return p, err
		}
		if p.Ordering, _, _, err = v.Extra(ctx, commitmeta.ExtraOrdering); err != nil {
			return p, fmt.Errorf("find %s: %w", commitmeta.ExtraOrdering, err)
		}
		p.stale = stale(props, p.Properties())
	case props.Get(propOrdering) != "":
		p.Known, p.Ordering = true, props.Get(propOrdering)
		if p.Layout, err = fromProperties(props); err != nil {
			return p, err
		}
	}
	p.CDC, p.Changelog = t.CDC(), t.Changelog()
	if t.PartitionField() != "" {
		p.BareFolders, p.PlainFolders = !t.Partitioning().Hive, !t.Partitioning().Escape
	}
	return p, nil
}

// stale are the settings that stand in hoodie.properties with another value.
func stale(props hudi.Properties, want map[string]string) map[string]string {
	other := map[string]string{}
	for k, value := range want {
		if have, there := props.Lookup(k); there && have != value {
			other[k] = value
		}
	}
	return other
}

func fromProperties(props hudi.Properties) (Layout, error) {
	l := Layout{Index: strings.ToLower(props.Get(hudi.PropIndexType)), Key: props.Get(hudi.PropKeyFields),
		PartitionField: props.Get(propPartitionField), PartitionFormat: props.Get(propPartitionFormat), Timezone: props.Get(propTimezone)}
	if l.PartitionField != "" {
		l.PartitionName = props.Get(hudi.PropPartitionFields)
	}
	if s := props.Get(propScope); s != scopeGlobal {
		l.Scope = s
	}
	if m := props.Get(propMoves); m != movesMove {
		l.Moves = m
	}
	if l.Index != indexBucket {
		return l, nil
	}
	var err error
	if l.Buckets, err = strconv.Atoi(props.Get(hudi.PropBuckets)); err != nil {
		return l, fmt.Errorf("%w: %s in hoodie.properties is no number: %w", ErrPinned, hudi.PropBuckets, err)
	}
	return l, nil
}

// PinError is one setting that the configuration has other than the table.
type PinError struct {
	// Setting is its name in the configuration.
	Setting string
	// Have is the table's value, Want the configuration's, Where the place of
	// the former.
	Have, Want, Where string
}

// Error implements error.
func (e *PinError) Error() string {
	return fmt.Sprintf("%s is %s in %s, the configuration says %s", e.Setting, e.Have, e.Where, e.Want)
}

// Unwrap makes it an ErrPinned.
func (e *PinError) Unwrap() error { return ErrPinned }

// Hint says what to do.
func (e *PinError) Hint() string {
	switch {
	case e.Setting == settingBuckets:
		return "use the table's number, or give it the other one with couch2hudi rebucket"
	case e.Setting == settingKey && e.Have == hudi.ColumnKey:
		return "the table takes many databases: follow them with source.databases and source.into: one, or use another table"
	case e.Setting == settingKey && e.Want == hudi.ColumnKey:
		return "the table is of one database, and its key has no place for others: use another table for source.into: one"
	}
	return "use the table's settings, or another table"
}

// PinsError are all settings in which configuration and table differ.
type PinsError struct{ All []*PinError }

// Error implements error.
func (e *PinsError) Error() string {
	all := make([]string, len(e.All))
	for i := range e.All {
		all[i] = e.All[i].Error()
	}
	return ErrPinned.Error() + ": " + strings.Join(all, "; ")
}

// Unwrap gives each of them.
func (e *PinsError) Unwrap() []error {
	all := make([]error, len(e.All))
	for i := range e.All {
		all[i] = e.All[i]
	}
	return all
}

const (
	whereProperties       = "hoodie.properties"
	settingIndex          = "table.index"
	settingBuckets        = "table.buckets"
	settingPartitionField = "table.partition.field"
	settingKey            = "the key column"
	settingCDC            = "table.cdc"
	settingChangelog      = "table.changelog"
	none                  = "none"
)

type setting struct{ name, value string }

// settings are the pins by the names of the configuration; those that mean
// nothing beside the others are left out.
func (p Pins) settings() []setting {
	list := []setting{{settingIndex, or(p.Index, indexBloom)}}
	if p.Index == indexBucket {
		list = append(list, setting{settingBuckets, strconv.Itoa(p.Buckets)})
	}
	list = append(list, setting{settingCDC, strings.ToLower(or(string(p.CDC), cdcOff))}, setting{settingChangelog, strconv.FormatBool(p.Changelog)})
	list = append(list, setting{"index.scope", or(p.Scope, scopeGlobal)}, setting{settingKey, or(p.Key, hudi.ColumnID)},
		setting{"table.ordering", or(p.Ordering, OrderingLeafSum)}, setting{settingPartitionField, or(p.PartitionField, none)})
	if p.PartitionField == "" {
		return list
	}
	return append(list, setting{"table.partition.format", or(p.PartitionFormat, none)}, setting{"table.partition.timezone", or(p.Timezone, none)},
		setting{"table.partition.name", p.PartitionName}, setting{"table.partition.moves", or(p.Moves, movesMove)},
		setting{"table.partition.hive_style", strconv.FormatBool(!p.BareFolders)},
		setting{"table.partition.url_encode", strconv.FormatBool(!p.PlainFolders)})
}

// Check compares the table's pins with those that a writer was started with: a
// PinsError where they differ.
func (p Pinned) Check(want Pins) error {
	if !p.Known {
		return nil
	}
	wanted := map[string]string{}
	for _, s := range want.settings() {
		wanted[s.name] = s.value
	}
	var e PinsError
	for _, s := range p.settings() {
		w, there := wanted[s.name]
		if !there || w == s.value {
			continue
		}
		where := p.Where
		if s.name == settingCDC || s.name == settingChangelog {
			where = whereProperties // commits do not say it
		}
		e.All = append(e.All, &PinError{Setting: s.name, Have: s.value, Want: w, Where: where})
	}
	if len(e.All) > 0 {
		return &e
	}
	return nil
}

// CheckFiles holds a table that pins nothing, another engine's, against the
// index asked for: its file groups show which one it has.
func (p Pinned) CheckFiles(ctx context.Context, v *table.View, want Pins) error {
	if p.Known || v.Last() == "" {
		return nil
	}
	if want.Index == indexBucket {
		err := index.NewBucket(index.BucketOptions{Buckets: want.Buckets}).Verify(ctx, v)
		if errors.Is(err, hudi.ErrBuckets) {
			return fmt.Errorf("%w: %s is bucket and %s is %d in the configuration, but %w; use the table's own number, or another table",
				ErrPinned, settingIndex, settingBuckets, want.Buckets, err)
		}
		return err
	}
	most, bucketed, err := index.Bucketed(ctx, v)
	if err == nil && bucketed {
		err = fmt.Errorf("%w: %s is bloom in the configuration, but the ids of the file groups are those of a bucket index, the greatest being %d; "+
			"use --index bucket and the --buckets of the writer that made the table", ErrPinned, settingIndex, most)
	}
	return err
}

func or(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

package catalog

import (
	"maps"
	"slices"
	"strings"
)

// Step is what has to be done about one table.
type Step string

// The steps.
const (
	StepNone   Step = "unchanged"
	StepCreate Step = "created"
	StepAlter  Step = "altered"
	// StepAdopt drops what has the name, without its files, and creates.
	StepAdopt Step = "adopted"
)

// Foreign says why what has a name in a metastore is not the table that is wanted
// there, "" when it is.
func Foreign(there, want *Table) string {
	switch {
	case want.Query == "" && there.Query != "":
		return "it is a view"
	case want.Query != "" && there.Query == "":
		return "it is a table, not a view of ours"
	case want.Query != "":
		if !SameLocation(there.Parameters[paramOurs], want.Parameters[paramOurs]) {
			return "it is another view"
		}
		return ""
	case there.Managed:
		return "it is a managed table, whose files the metastore deletes with it"
	case !SameLocation(there.Location, want.Location):
		return "its files are at " + there.Location + ", not at " + want.Location
	case there.InputFormat != inputOptimized && there.InputFormat != inputRealtime:
		return "it is not read as a Hudi table, but by " + there.InputFormat
	case !sameColumns(there.Partitioned, want.Partitioned):
		return "it is partitioned by [" + listed(there.Partitioned) + "], not by [" + listed(want.Partitioned) + "]"
	}
	return ""
}

func listed(columns []Column) string {
	list := make([]string, len(columns))
	for i, c := range columns {
		list[i] = c.Name + " " + c.Type
	}
	return strings.Join(list, ", ")
}

// SameLocation says whether two addresses are of one place: metastores write file:/x
// for file:///x, and s3, s3a and s3n are one store.
func SameLocation(a, b string) bool { return plainLocation(a) == plainLocation(b) }

func plainLocation(l string) string {
	scheme, rest, ok := strings.Cut(l, ":")
	if !ok {
		scheme, rest = "file", l
	}
	if rest = strings.TrimRight(rest, "/"); scheme == "file" {
		return "file:/" + strings.TrimLeft(rest, "/")
	}
	if scheme == "s3a" || scheme == "s3n" {
		scheme = "s3"
	}
	return scheme + ":" + rest
}

func sameColumns(a, b []Column) bool {
	return slices.EqualFunc(a, b, func(a, b Column) bool {
		return strings.EqualFold(a.Name, b.Name) && strings.EqualFold(strings.ReplaceAll(a.Type, " ", ""), b.Type)
	})
}

// Merged is what a table that is there becomes: what is wanted, with the parameters of
// others that it has. changed says whether that is anything new. Comments that people
// gave to columns stay.
func Merged(there, want *Table) (t Table, changed bool) {
	t = *want
	t.Columns = slices.Clone(want.Columns)
	for i := range t.Columns {
		c := &t.Columns[i]
		at := slices.IndexFunc(there.Columns, func(o Column) bool { return strings.EqualFold(o.Name, c.Name) })
		if at >= 0 && c.Comment == "" {
			c.Comment = there.Columns[at].Comment
		}
	}
	t.Partitioned = there.Partitioned
	t.Parameters = maps.Clone(there.Parameters)
	if t.Parameters == nil {
		t.Parameters = map[string]string{}
	}
	maps.DeleteFunc(t.Parameters, func(key, _ string) bool {
		_, ok := want.Parameters[key]
		return !ok && strings.HasPrefix(key, paramSchema)
	})
	maps.Copy(t.Parameters, want.Parameters)
	t.SerDeParameters = maps.Clone(there.SerDeParameters)
	if t.SerDeParameters == nil && want.SerDeParameters != nil {
		t.SerDeParameters = map[string]string{}
	}
	maps.Copy(t.SerDeParameters, want.SerDeParameters)
	// Parameters that only the wanted location's spelling would change stay.
	same := sameColumns(there.Columns, want.Columns) && there.Query == want.Query &&
		there.InputFormat == want.InputFormat && there.OutputFormat == want.OutputFormat && there.SerDe == want.SerDe &&
		maps.Equal(there.Parameters, t.Parameters) && (want.Query != "" || maps.Equal(there.SerDeParameters, t.SerDeParameters))
	return t, !same
}

// PartitionPlan is how the partitions of a table become those that are wanted.
type PartitionPlan struct {
	Add, Move []Partition
	Drop      []string // values
}

// PlanPartitions compares what a metastore has with what is wanted there. gone are
// values that are to be dropped where they are; with all, whatever is not wanted is.
func PlanPartitions(there, want []Partition, gone []string, all bool) PartitionPlan {
	var p PartitionPlan
	has := make(map[string]string, len(there))
	for _, t := range there {
		has[t.Value] = t.Location
	}
	wanted := make(map[string]bool, len(want))
	for _, w := range want {
		wanted[w.Value] = true
		switch location, ok := has[w.Value]; {
		case !ok:
			p.Add = append(p.Add, w)
		case !SameLocation(location, w.Location):
			p.Move = append(p.Move, w)
		}
	}
	for _, t := range there {
		if !wanted[t.Value] && (all || slices.Contains(gone, t.Value)) {
			p.Drop = append(p.Drop, t.Value)
		}
	}
	return p
}

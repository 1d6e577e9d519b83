package commitmeta

import "github.com/couch2hudi/couch2hudi/hudi"

// ReplacePlan is the content of a replacecommit's requested file.
type ReplacePlan struct {
	// Operation is "CLUSTER" for a clustering and mostly "" for others.
	Operation string
	// Clustering is the plan of a clustering. It is nil for an insert overwrite
	// and a delete of partitions: at version 6 nothing else tells them apart.
	Clustering *ClusteringPlan
	Extra      map[string]string
}

// ClusteringPlan says which slices a clustering rewrites together.
type ClusteringPlan struct {
	Groups   []ClusteringGroup
	Strategy *Strategy
	Extra    map[string]string
	// KeepMeta says that rows keep their meta columns.
	KeepMeta bool
}

// ClusteringGroup are slices that become Outputs file groups.
type ClusteringGroup struct {
	Slices  []ClusteringSlice
	Metrics map[string]float64
	Outputs int
	Extra   map[string]string
}

// ClusteringSlice is one slice to be rewritten. Paths are full, with a scheme,
// as the planner had them.
type ClusteringSlice struct {
	hudi.Location
	Base      string
	Logs      []string
	Bootstrap string
}

// Locations are the file groups that a pending clustering rewrites.
func (p *ReplacePlan) Locations() []hudi.Location {
	var all []hudi.Location
	if p.Clustering == nil {
		return nil
	}
	for _, g := range p.Clustering.Groups {
		for i := range g.Slices {
			all = append(all, g.Slices[i].Location)
		}
	}
	return all
}

const (
	recordReplacePlan = "HoodieRequestedReplaceMetadata"
	// clusteringVersion is the one version of plans, groups and slices.
	clusteringVersion = 1
)

type replacePlanAvro struct {
	Operation  *string            `avro:"operationType"`
	Clustering *clusteringAvro    `avro:"clusteringPlan"`
	Extra      *map[string]string `avro:"extraMetadata"`
	Version    *int32             `avro:"version"`
}

type clusteringAvro struct {
	Groups   *[]clusteringGroupAvro  `avro:"inputGroups"`
	Strategy *clusteringStrategyAvro `avro:"strategy"`
	Extra    *map[string]string      `avro:"extraMetadata"`
	Version  *int32                  `avro:"version"`
	KeepMeta *bool                   `avro:"preserveHoodieMetadata"`
}

type clusteringGroupAvro struct {
	Slices  *[]clusteringSliceAvro `avro:"slices"`
	Metrics *map[string]float64    `avro:"metrics"`
	Outputs *int32                 `avro:"numOutputFileGroups"`
	Extra   *map[string]string     `avro:"extraMetadata"`
	Version *int32                 `avro:"version"`
}

type clusteringSliceAvro struct {
	Base      *string   `avro:"dataFilePath"`
	Logs      *[]string `avro:"deltaFilePaths"`
	File      *string   `avro:"fileId"`
	Partition *string   `avro:"partitionPath"`
	Bootstrap *string   `avro:"bootstrapFilePath"`
	Version   *int32    `avro:"version"`
}

type clusteringStrategyAvro struct {
	Class   *string            `avro:"strategyClassName"`
	Params  *map[string]string `avro:"strategyParams"`
	Version *int32             `avro:"version"`
}

// EncodeReplacePlan is the plan as an Avro file. The zero plan is what Hudi
// writes for an insert overwrite: a record of nulls.
func EncodeReplacePlan(p ReplacePlan) ([]byte, error) {
	a := replacePlanAvro{Operation: orNull(p.Operation)}
	if p.Extra != nil || p.Clustering != nil {
		a.Extra, a.Version = ptr(filled(p.Extra)), ptr(int32(clusteringVersion))
	}
	if c := p.Clustering; c != nil {
		groups := make([]clusteringGroupAvro, len(c.Groups))
		for i := range c.Groups {
			groups[i] = makeGroup(&c.Groups[i])
		}
		a.Clustering = &clusteringAvro{Groups: &groups, Extra: ptr(filled(c.Extra)), Version: ptr(int32(clusteringVersion)), KeepMeta: &c.KeepMeta}
		if c.Strategy != nil {
			a.Clustering.Strategy = &clusteringStrategyAvro{Class: &c.Strategy.Class, Params: ptr(filled(c.Strategy.Params)), Version: ptr(int32(strategyVersion))}
		}
	}
	return encodeFile(recordReplacePlan, a)
}

func makeGroup(g *ClusteringGroup) clusteringGroupAvro {
	slices := make([]clusteringSliceAvro, len(g.Slices))
	for i := range g.Slices {
		s := &g.Slices[i]
		slices[i] = clusteringSliceAvro{Base: &s.Base, Logs: ptr(items(s.Logs)), File: ptr(string(s.File)), Partition: &s.Partition,
			Bootstrap: &s.Bootstrap, Version: ptr(int32(clusteringVersion))}
	}
	a := clusteringGroupAvro{Slices: &slices, Metrics: ptr(filled(g.Metrics)), Outputs: ptr(int32(g.Outputs)), Version: ptr(int32(clusteringVersion))}
	if g.Extra != nil {
		a.Extra = &g.Extra
	}
	return a
}

// DecodeReplacePlan reads the requested file of a replacecommit. An empty one
// is an insert overwrite.
func DecodeReplacePlan(data []byte) (ReplacePlan, error) {
	if len(data) == 0 {
		return ReplacePlan{}, nil
	}
	var a replacePlanAvro
	if err := decodeFile(recordReplacePlan, data, &a); err != nil {
		return ReplacePlan{}, err
	}
	return a.plan(), nil
}

func (a *replacePlanAvro) plan() ReplacePlan {
	p := ReplacePlan{Operation: text(a.Operation), Extra: some(a.Extra)}
	if a.Clustering == nil {
		return p
	}
	c := &ClusteringPlan{Extra: some(a.Clustering.Extra), KeepMeta: orZero(a.Clustering.KeepMeta)}
	if s := a.Clustering.Strategy; s != nil {
		c.Strategy = &Strategy{Class: text(s.Class), Params: some(s.Params)}
	}
	for _, g := range orZero(a.Clustering.Groups) {
		group := ClusteringGroup{Metrics: some(g.Metrics), Outputs: int(orZero(g.Outputs)), Extra: some(g.Extra)}
		for _, s := range orZero(g.Slices) {
			group.Slices = append(group.Slices, ClusteringSlice{Location: hudi.Location{Partition: text(s.Partition), File: hudi.FileID(text(s.File))},
				Base: text(s.Base), Logs: list(s.Logs), Bootstrap: text(s.Bootstrap)})
		}
		c.Groups = append(c.Groups, group)
	}
	p.Clustering = c
	return p
}

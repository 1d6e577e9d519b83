package commitmeta

import "github.com/couch2hudi/couch2hudi/hudi"

// RestorePlan is the content of a restore's requested file (docs/format/savepoint.md).
type RestorePlan struct {
	// Instants are rolled back in this order, the newest first.
	Instants []InstantInfo
	// Savepoint is the instant that the table is brought back to; "" in plans of
	// version 1.
	Savepoint hudi.Time
}

// RestoreResult is the content of a completed restore.
type RestoreResult struct {
	// Start is the restore's own instant.
	Start  hudi.Time
	Millis int64
	// Instants were rolled back.
	Instants []InstantInfo
	// Rollbacks are the rollbacks by the instant that each undid.
	Rollbacks map[hudi.Time][]RollbackResult
}

const (
	recordRestorePlan    = "HoodieRestorePlan"
	recordRestoreResult  = "HoodieRestoreMetadata"
	restorePlanVersion   = 2
	restoreResultVersion = 1
)

type restorePlanAvro struct {
	Instants  []instantInfoAvro `avro:"instantsToRollback"`
	Version   *int32            `avro:"version"`
	Savepoint *string           `avro:"savepointToRestoreTimestamp"`
}

type restoreResultAvro struct {
	Start     string                             `avro:"startRestoreTime"`
	Millis    int64                              `avro:"timeTakenInMillis"`
	Times     []string                           `avro:"instantsToRollback"`
	Rollbacks map[string][]*rollbackMetadataAvro `avro:"hoodieRestoreMetadata"`
	Version   *int32                             `avro:"version"`
	Instants  []instantInfoAvro                  `avro:"restoreInstantInfo"`
}

// EncodeRestorePlan is the plan as an Avro file of version 2.
func EncodeRestorePlan(p RestorePlan) ([]byte, error) {
	return encodeFile(recordRestorePlan, restorePlanAvro{Instants: makeInfos(p.Instants), Version: ptr(int32(restorePlanVersion)), Savepoint: orNull(string(p.Savepoint))})
}

// DecodeRestorePlan reads a plan of any writer.
func DecodeRestorePlan(data []byte) (RestorePlan, error) {
	var a restorePlanAvro
	if err := decodeFile(recordRestorePlan, data, &a); err != nil {
		return RestorePlan{}, err
	}
	return RestorePlan{Instants: infos(a.Instants), Savepoint: hudi.Time(text(a.Savepoint))}, nil
}

// EncodeRestoreResult is the metadata of a completed restore as an Avro file.
func EncodeRestoreResult(r RestoreResult) ([]byte, error) {
	a := restoreResultAvro{Start: string(r.Start), Millis: r.Millis, Times: make([]string, len(r.Instants)), Instants: makeInfos(r.Instants),
		Rollbacks: make(map[string][]*rollbackMetadataAvro, len(r.Rollbacks)), Version: ptr(int32(restoreResultVersion))}
	for i, instant := range r.Instants {
		a.Times[i] = string(instant.Time)
	}
	for t, rollbacks := range r.Rollbacks {
		l := make([]*rollbackMetadataAvro, len(rollbacks))
		for i := range rollbacks {
			l[i] = makeRollback(&rollbacks[i])
		}
		a.Rollbacks[string(t)] = l
	}
	return encodeFile(recordRestoreResult, a)
}

// DecodeRestoreResult reads the metadata of a completed restore. Files of old
// releases name the instants without their actions.
func DecodeRestoreResult(data []byte) (RestoreResult, error) {
	var a restoreResultAvro
	if err := decodeFile(recordRestoreResult, data, &a); err != nil {
		return RestoreResult{}, err
	}
	r := RestoreResult{Start: hudi.Time(a.Start), Millis: a.Millis, Instants: infos(a.Instants)}
	if len(a.Instants) == 0 {
		for _, t := range a.Times {
			r.Instants = append(r.Instants, InstantInfo{Time: hudi.Time(t)})
		}
	}
	for t, rollbacks := range a.Rollbacks {
		if r.Rollbacks == nil {
			r.Rollbacks = make(map[hudi.Time][]RollbackResult, len(a.Rollbacks))
		}
		l := make([]RollbackResult, 0, len(rollbacks))
		for _, one := range rollbacks {
			if one != nil {
				l = append(l, one.result())
			}
		}
		r.Rollbacks[hudi.Time(t)] = l
	}
	return r, nil
}

func makeInfos(l []InstantInfo) []instantInfoAvro {
	out := make([]instantInfoAvro, len(l))
	for i, instant := range l {
		out[i] = instantInfoAvro{Time: string(instant.Time), Action: string(instant.Action)}
	}
	return out
}

func infos(l []instantInfoAvro) []InstantInfo {
	var out []InstantInfo
	for _, i := range l {
		out = append(out, i.info())
	}
	return out
}

package commitmeta

// Action is what an instant does, as its file names say.
type Action string

// The actions of Hudi's timeline.
const (
	ActionCommit        Action = "commit"
	ActionDeltaCommit   Action = "deltacommit"
	ActionCompaction    Action = "compaction"
	ActionLogCompaction Action = "logcompaction"
	ActionReplaceCommit Action = "replacecommit"
	// ActionClustering is that of a clustering until it completes, from table
	// version 8 on; before it is a replacecommit all the time.
	ActionClustering Action = "clustering"
	ActionClean      Action = "clean"
	ActionRollback   Action = "rollback"
	ActionRestore    Action = "restore"
	ActionSavepoint  Action = "savepoint"
	ActionIndexing   Action = "indexing"
)

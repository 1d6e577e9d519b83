package hudi

// PartitionPath is the folder of one partition value.
func PartitionPath(field, value string, null bool) string { return field + "=" + value }

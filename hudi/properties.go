package hudi

// Properties are the settings of a table as hoodie.properties holds them.
type Properties struct{ values map[string]string }

package cloud

import "testing"

// MinIO refuses to list what ends in a part "." or "..", which names may begin with.
func TestListable(t *testing.T) {
	for prefix, want := range map[string]string{
		"": "", ".": "", "..": "", "...": "...", ".hoodie": ".hoodie", "a/": "a/", "a/.": "a/", "a/..": "a/", "a/..b": "a/..b", "a..": "a..",
	} {
		if got := listable(prefix); got != want {
			t.Errorf("listable(%q) = %q, want %q", prefix, got, want)
		}
	}
}

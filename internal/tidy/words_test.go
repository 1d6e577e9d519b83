package tidy_test

import (
	"bytes"
	"regexp"
)

// ban is a pattern that no file holds.
type ban struct {
	pattern *regexp.Regexp
	why     string
}

// wordsFile is this file, which must name what it bans.
const wordsFile = "internal/tidy/words_test.go"

func bans() []ban {
	return []ban{
		{regexp.MustCompile(`\b(TODO|FIXME|XXX)\b`), "finish it, or leave it out and say so in the docs"},
		{regexp.MustCompile(`(?i)\bnot (yet )?implemented\b|\bunimplemented\b`), "finish it, or leave it out and say so in the docs"},
		{regexp.MustCompile(`(^|[\s"'=(:` + "`" + `])(file://)?/(work|root|home|Users)/`), "a path of one machine"},
		{regexp.MustCompile(`\b(GOPROXY|GONOSUMDB|GONOSUMCHECK|GOINSECURE)=|--index-url|--extra-index-url`), "a package registry of one machine"},
		{regexp.MustCompile(`(?i)\b(artifactory|jfrog|[\w-]+\.internal/|[\w-]+\.corp/)`), "a package registry of one machine"},
		{regexp.MustCompile(`https?://(10\.\d|192\.168\.|172\.(1[6-9]|2\d|3[01])\.)`), "an address of one network"},
	}
}

func checkWords(t *tree) (found []finding) {
	all := bans()
	for _, f := range t.files {
		if f.path == wordsFile {
			continue
		}
		line := 0
		for text := range bytes.Lines(f.text) {
			line++
			for _, b := range all {
				if hit := b.pattern.Find(text); hit != nil {
					found = append(found, finding{f.path, line, "says " + string(bytes.TrimSpace(hit)) + ": " + b.why})
				}
			}
		}
	}
	return found
}

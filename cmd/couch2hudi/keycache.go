package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/couch2hudi/couch2hudi/config"
	"github.com/couch2hudi/couch2hudi/index/keycache"
	"github.com/couch2hudi/couch2hudi/pipeline"
	"github.com/couch2hudi/couch2hudi/table"
)

// keepKeys puts the key cache in front of the index that reads the table. The
// closer writes it out. Without a folder for it, which nobody asked for by name,
// the index stays as it is.
func keepKeys(ctx context.Context, o *pipeline.Options, cfg config.Config, t *table.Table, show *progress, log *slog.Logger) (closer func() error, err error) {
	none := func() error { return nil }
	without := func() {
		if what := costlyLookups(cfg); what != "" {
			log.Warn("look-ups cost more with each partition", keyReason, what, keyNext, cheaperLookups)
		}
	}
	if cfg.StateDir == config.StateOff {
		without()
		return none, nil
	}
	address, err := tableAddress(cfg.Table.URL)
	if err != nil {
		return none, err
	}
	dir, err := stateDir(cfg.StateDir, t.Name(), address)
	if err != nil {
		log.Warn("no key cache", keyReason, err.Error())
		without()
		return none, nil
	}
	pins, err := json.Marshal(o.Layout)
	if err != nil {
		return none, err
	}
	const share = 8
	c, err := keycache.Open(ctx, keycache.Options{Dir: dir, Identity: address, Layout: string(pins),
		Memory: o.Memory / share, Fallback: o.Index, Events: keycache.Events{
			Building: show.building,
			Caught:   func(instants, groups int) { log.Debug("key cache caught up", keyInstants, instants, keyGroups, groups) },
			Failed:   func(err error) { log.Warn("no key cache", keyReason, err.Error()) },
		}})
	switch {
	case err != nil && cfg.StateDir == "":
		log.Warn("no key cache", keyReason, err.Error())
		without()
		return none, nil
	case err != nil:
		return none, fmt.Errorf("%w (state_dir, or %q to do without)", err, "--state-dir "+config.StateOff)
	}
	o.Index = c
	return c.Close, nil
}

// tableAddress is the table's absolute address.
func tableAddress(url string) (string, error) {
	u, err := config.ParseTableURL(url)
	if err != nil {
		return "", err
	}
	if !u.Local() {
		return u.String(), nil
	}
	abs, err := filepath.Abs(u.Path)
	if err != nil {
		return "", fmt.Errorf("find the table's address: %w", err)
	}
	return "file://" + filepath.ToSlash(abs), nil
}

// stateDir is the folder of one table's key cache: below the folder asked for, or
// below the user's caches.
func stateDir(asked, name, address string) (string, error) {
	if asked == "" {
		caches, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a folder for it: %w; name one with --state-dir", err)
		}
		asked = filepath.Join(caches, "couch2hudi")
	}
	const hashBytes = 8
	sum := sha256.Sum256([]byte(address))
	safe := strings.Map(func(r rune) rune {
		if r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, name)
	return filepath.Join(asked, safe+"-"+hex.EncodeToString(sum[:hashBytes]), "keys"), nil
}

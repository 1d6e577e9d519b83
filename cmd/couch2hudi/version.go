package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func newVersion(s streams) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  couch2hudi version",
		RunE: func(*cobra.Command, []string) error {
			version, revision := buildVersion()
			_, err := fmt.Fprintf(s.out, "couch2hudi %s (%s) %s %s/%s, writes Hudi table version 6\n",
				version, revision, runtime.Version(), runtime.GOOS, runtime.GOARCH)
			return err
		},
	}
}

// buildVersion is what the Go tool noted in the binary.
func buildVersion() (version, revision string) {
	version, revision = "devel", "unknown revision"
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version, revision
	}
	if info.Main.Version != "" {
		version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			revision = s.Value
		}
	}
	return version, revision
}

// Reads dashboards as Grafana's own types have them, and refuses what those do not know or lack.
package main

import (
	"fmt"
	"os"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

func main() {
	plugins.RegisterDefaultPlugins()
	for _, name := range os.Args[1:] {
		if err := check(name); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
			os.Exit(1)
		}
	}
}

func check(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var read dashboard.Dashboard
	if err := read.UnmarshalJSONStrict(text); isViolated(err) {
		return err
	}
	if err := read.Validate(); isViolated(err) {
		return err
	}
	return nil
}

// Whether there is a violation: without one, both functions give an error without words.
func isViolated(err error) bool {
	return err != nil && err.Error() != ""
}

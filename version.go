// version.go owns what this binary says it is.

package main

import "runtime/debug"

// builtVersion is set by the linker (-X main.builtVersion=…) in release builds.
var builtVersion string

// version is the one set at build time, else the module's, else the revision it was
// built from.
func version() string {
	if builtVersion != "" {
		return builtVersion
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" {
			return setting.Value
		}
	}
	return "devel"
}

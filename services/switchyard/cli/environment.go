package cli

import (
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/switchyard/switchyard/pkg/policy/registry"
)

// variables begin the names of all variables that are read here.
const variables = "SWITCHYARD_"

// otherVariables are read by no flag: they switch kernels off.
var otherVariables = []string{"SWITCHYARD_NO_AMX", "SWITCHYARD_NO_AVX512BF16", "SWITCHYARD_NO_AVX512VNNI", "SWITCHYARD_NO_AVX512", "SWITCHYARD_NO_AVX2"}

// fromKubernetes matches what it sets for services whose name begins so.
var fromKubernetes = regexp.MustCompile(`_SERVICE_(HOST|PORT(_[A-Z0-9_]+)?)$|_PORT(_\d+_(TCP|UDP)(_[A-Z]+)?)?$`)

// strayVariables returns those set in the environment that nothing reads: most
// likely typing mistakes, or a version's that is not this one.
func strayVariables(app *kong.Application) []string {
	known := map[string]bool{}
	for _, name := range otherVariables {
		known[name] = true
	}
	addVariables(known, app.Node)
	var stray []string
	for _, set := range os.Environ() {
		name, _, _ := strings.Cut(set, "=")
		if strings.HasPrefix(name, variables) && !known[name] && !fromKubernetes.MatchString(name) {
			stray = append(stray, name+meant(name, known))
		}
	}
	slices.Sort(stray)
	return stray
}

// meant says which variable somebody may have meant; empty: none is like it.
func meant(name string, known map[string]bool) string {
	var all []string
	for k := range known {
		all = append(all, strings.ToLower(k))
	}
	near := registry.Nearest(name, all)
	if len(near) == 0 || len(near) > 2 {
		return ""
	}
	slices.Sort(near)
	return " (did you mean " + strings.ToUpper(strings.Join(near, " or ")) + "?)"
}

// addVariables adds the variables of a node's flags and of its commands' ones.
func addVariables(known map[string]bool, node *kong.Node) {
	for _, flag := range node.Flags {
		for _, name := range flag.Envs {
			known[name] = true
		}
	}
	for _, child := range node.Children {
		addVariables(known, child)
	}
}

// IsSetting reports whether a variable sets a flag: a child has all of its flags as arguments. Those of kernels are
// of the machine.
func IsSetting(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return strings.HasPrefix(name, variables) && !strings.HasPrefix(name, "SWITCHYARD_KERNEL") && !slices.Contains(otherVariables, name)
}

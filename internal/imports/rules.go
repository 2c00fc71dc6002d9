// Package imports holds the direction of dependencies as data. Its test checks
// the whole repository against the rules.
//
//	services ─▶ pkg ─▶ kernels ─▶ standard library
//	       └────┴──▶ schemas
package imports

// Rule says what some packages may import.
//
// Patterns are paths within this module ("pkg/bus"), import paths of others
// ("github.com/nats-io/nats.go"), "std", or "module" for every path of this
// module. A path ending in "/..." stands for everything beneath it and itself.
type Rule struct {
	// Of are the packages that the rule binds; Except are those it does not.
	Of, Except []string
	// Only, if not nil, are the imports that it allows.
	Only []string
	// Never are imports that it forbids.
	Never []string
	// AndTests binds test files too.
	AndTests bool
	// Reason is for who breaks the rule.
	Reason string
	// Bad is an import that breaks the rule, from package to package: the
	// test wants it to be found.
	Bad [2]string
}

// Rules are all rules of this repository.
var Rules = []Rule{
	{
		Of:     []string{"kernels/..."},
		Only:   []string{"std", "kernels/...", "golang.org/x/sys/...", "gorgonia.org/cu"},
		Reason: "kernels are the bottom: they are tested, and can be replaced, without anything above them",
		Bad:    [2]string{"kernels/cpu", "pkg/model"},
	},
	{
		Of:     []string{"schemas/..."},
		Only:   []string{"std", "schemas/...", "google.golang.org/protobuf/..."},
		Reason: "schemas are what outsiders share with us: they do no I/O and bring nothing along",
		Bad:    [2]string{"schemas", "github.com/nats-io/nats.go"},
	},
	{
		Of: []string{"pkg/...", "models/..."}, AndTests: true,
		Never:  []string{"services/...", "loadtest/..."},
		Reason: "libraries are below services; what both need belongs into pkg",
		Bad:    [2]string{"pkg/bus", "services/gate"},
	},
	{
		Of: []string{"services/..."}, Except: []string{"services/switchyard"}, AndTests: true,
		Never:  []string{"services/..."},
		Reason: "messages are the only interface between services, so that each can run, scale and fail alone",
		Bad:    [2]string{"services/gate", "services/expert"},
	},
	{
		Of: []string{
			"pkg/predict/...", "pkg/scale/...", "pkg/place/...", "pkg/brownout/...", "pkg/expertmap/...",
			"pkg/cache/...", "pkg/deployplan/...", "pkg/cost/...", "pkg/batching/...", "pkg/plan/...", "pkg/sampling/...",
		},
		Never: []string{
			"context", "time", "net/...", "os/...", "log/...", "math/rand", "math/rand/v2",
			"pkg/bus/...", "pkg/telemetry/...", "pkg/lifecycle/...", "github.com/nats-io/...", "go.opentelemetry.io/...",
			"github.com/prometheus/...",
		},
		Reason: "policies are pure: the runtime and the simulator call the same functions, and the same input gives the same decision",
		Bad:    [2]string{"pkg/scale", "time"},
	},
	{
		Of:     []string{"pkg/device/..."},
		Only:   []string{"std", "kernels/...", "pkg/device/...", "pkg/forward", "pkg/model", "pgregory.net/rapid"},
		Reason: "a device holds and computes what it is told to; who wants what, and why, is decided above it",
		Bad:    [2]string{"pkg/device", "pkg/plan"},
	},
	{
		Of:     []string{"pkg/forward/..."},
		Never:  []string{"pkg/device/..."},
		Reason: "forward computes with weights that are lent to it; where they are held is a device's matter",
		Bad:    [2]string{"pkg/forward", "pkg/device"},
	},
	{
		Of:     []string{"pkg/client/..."},
		Only:   []string{"std", "schemas/...", "github.com/nats-io/...", "google.golang.org/protobuf/..."},
		Reason: "producers take this package into their programs: it must not bring a model server along",
		Bad:    [2]string{"pkg/client", "pkg/bus"},
	},
	{
		Of: []string{"loadtest/..."}, AndTests: true,
		Only: []string{
			"std", "schemas/...", "pkg/client", "loadtest/...", "github.com/nats-io/nats.go/...",
			"google.golang.org/protobuf/...", "gonum.org/v1/...", "go.uber.org/goleak",
		},
		Reason: "load tests measure what strangers get, so they use public endpoints only; pkg/client is one, being bound to schemas itself",
		Bad:    [2]string{"loadtest/report", "pkg/forward"},
	},
	{
		Of: []string{"module"}, Except: []string{"kernels/cuda/..."},
		Never:  []string{"gorgonia.org/cu/..."},
		Reason: "importing it ends the process on a machine without a GPU; only the binary built with tag cuda may",
		Bad:    [2]string{"pkg/forward", "gorgonia.org/cu"},
	},
	{
		Of: []string{"module"}, Except: []string{"pkg/natsserver"},
		Never:  []string{"github.com/nats-io/nats-server/v2/..."},
		Reason: "services talk to a server over a connection, wherever it runs; one package knows how to run one",
		Bad:    [2]string{"services/gate", "github.com/nats-io/nats-server/v2/server"},
	},
	{
		Of: []string{"module"}, Except: []string{"services/switchyard"},
		Never:  []string{"github.com/alecthomas/...", "golang.org/x/term"},
		Reason: "the command line is services/switchyard's; a service gets a Config",
		Bad:    [2]string{"services/expert", "github.com/alecthomas/kong"},
	},
}

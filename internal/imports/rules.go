// Package imports holds the direction of dependencies as data. Its test checks
// the whole repository against the rules.
//
//	loadtest ─▶ services ─▶ pkg ─▶ kernels ─▶ standard library
//	                  └────┴──▶ schemas
//
// The wings of pkg have an order of their own (wings).
package imports

import "slices"

// Rule says what some packages may import.
//
// Patterns are paths within this module ("pkg/transport/bus"), import paths of others
// ("github.com/nats-io/nats.go"), "std", or "module" for every path of this
// module. A path ending in "/..." stands for everything beneath it and itself, and "*" for
// one folder.
type Rule struct {
	// Of are the packages that the rule binds; Except are those it does not.
	Of, Except []string
	// Only, if not nil, are the imports that it allows.
	Only []string
	// Never are imports that it forbids.
	Never []string
	// Within is a folder whose own folders the rule sets apart: an import that stays in
	// one of them does not break it.
	Within string
	// AndTests binds test files too.
	AndTests bool
	// Reason is for who breaks the rule.
	Reason string
	// Bad is an import that breaks the rule, from package to package: the
	// test wants it to be found.
	Bad [2]string
}

// outsiders are the folders of the laboratory that use what outsiders can use.
var outsiders = []string{
	"loadtest/chaos/...", "loadtest/clients", "loadtest/contract", "loadtest/door", "loadtest/fleet", "loadtest/jaeger", "loadtest/overload",
	"loadtest/pages", "loadtest/scaling", "loadtest/soak", "loadtest/upgrade",
}

// Rules are all rules of this repository.
var Rules = slices.Concat(wingRules(), []Rule{
	{
		Of:     []string{"kernels/..."},
		Only:   []string{"std", "kernels/...", "golang.org/x/sys/...", "gorgonia.org/cu", "github.com/NVIDIA/go-nvml/..."},
		Reason: "kernels are the bottom: they are tested, and can be replaced, without anything above them",
		Bad:    [2]string{"kernels/cpu", "pkg/compute/model"},
	},
	{
		Of:     []string{"schemas/..."},
		Only:   []string{"std", "schemas/...", "google.golang.org/protobuf/..."},
		Reason: "schemas are what outsiders share with us: they do no I/O and bring nothing along",
		Bad:    [2]string{"schemas", "github.com/nats-io/nats.go"},
	},
	{
		Of: []string{"pkg/...", "models/..."}, AndTests: true,
		Never:  []string{"services/..."},
		Reason: "libraries are below services; what both need belongs into pkg",
		Bad:    [2]string{"pkg/transport/bus", "services/gate"},
	},
	{
		Of: []string{"module"}, Except: []string{"loadtest/..."}, AndTests: true,
		Never:  []string{"loadtest/..."},
		Reason: "the laboratory measures what is served and is a module of its own: what serves, and its tests, build without it",
		Bad:    [2]string{"services/switchyard", "loadtest/bench"},
	},
	{
		Of: []string{"internal/..."}, Except: []string{"internal/testkit/..."},
		Never:  []string{"pkg/...", "services/..."},
		Reason: "what every wing may use stands below all; what tests share may use anything",
		Bad:    [2]string{"internal/pause", "pkg/transport/bus"},
	},
	{
		Of: []string{"services/..."}, Except: []string{"services", "services/switchyard/..."}, Within: "services", AndTests: true,
		Never:  []string{"services/..."},
		Reason: "messages are the only interface between services, so that each can run, scale and fail alone",
		Bad:    [2]string{"services/gate", "services/expert"},
	},
	{
		Of:     []string{"pkg/transport/catalog"},
		Only:   []string{"std", "schemas/..."},
		Never:  []string{"context", "net/...", "os/...", "log/...", "time"},
		Reason: "what services there are is asked by everything that speaks of them, rights first: the list stands below all",
		Bad:    [2]string{"pkg/transport/catalog", "pkg/transport/bus"},
	},
	{
		Of:     []string{"services/tokenizer/probe"},
		Never:  []string{"services/tokenizer", "services/tokenizer/admission", "services/tokenizer/delivery", "services/tokenizer/intake"},
		Reason: "the tokenizer's rooms ask in one direction: intake, delivery, admission, probe; a probe looks, and what is done about it is decided by those who ask it",
		Bad:    [2]string{"services/tokenizer/probe", "services/tokenizer/intake"},
	},
	{
		Of:     []string{"services/tokenizer/admission"},
		Never:  []string{"services/tokenizer", "services/tokenizer/delivery", "services/tokenizer/intake"},
		Reason: "admission counts what it is told of requests and decides who may wait: it must be able to do so without reading a prompt or a token log",
		Bad:    [2]string{"services/tokenizer/admission", "services/tokenizer/delivery"},
	},
	{
		Of:     []string{"services/tokenizer/delivery"},
		Never:  []string{"services/tokenizer", "services/tokenizer/intake"},
		Reason: "delivery makes answers of the token log alone, so that every replica makes the same ones, whichever took the prompt in",
		Bad:    [2]string{"services/tokenizer/delivery", "services/tokenizer/intake"},
	},
	{
		Of:     []string{"services/tokenizer/intake"},
		Never:  []string{"services/tokenizer"},
		Reason: "services/tokenizer only wires the rooms, and none of them knows how",
		Bad:    [2]string{"services/tokenizer/intake", "services/tokenizer"},
	},
	{
		Of:     []string{"services/tokenizer", "services/tokenizer/intake", "services/tokenizer/delivery", "services/tokenizer/admission", "services/tokenizer/probe"},
		Never:  []string{"services/tokenizer/internal/..."},
		Reason: "the rig starts servers and plays attention: it is for tests, which alone import it",
		Bad:    [2]string{"services/tokenizer/intake", "services/tokenizer/internal/rig"},
	},
	{
		Of:     []string{"services/attention/queue"},
		Never:  []string{"services/attention", "services/attention/layer"},
		Reason: "attention's rooms ask in one direction: queue, engine, layer; services/attention only wires them, and what waits knows nothing of rows",
		Bad:    [2]string{"services/attention/queue", "services/attention"},
	},
	{
		Of:     []string{"services/attention/engine"},
		Never:  []string{"services/attention", "services/attention/queue"},
		Reason: "the engine steps what is handed to it: where sequences come from, and whose turn it is, is decided before",
		Bad:    [2]string{"services/attention/engine", "services/attention"},
	},
	{
		Of:     []string{"services/attention/layer"},
		Never:  []string{"services/attention", "services/attention/queue", "services/attention/engine", "services/attention/renewal"},
		Reason: "layer brings rows to experts and sums back: it knows rows and steps, and no sequence, so that whatever steps can call it",
		Bad:    [2]string{"services/attention/layer", "services/attention"},
	},
	{
		Of:     []string{"services/attention/renewal"},
		Never:  []string{"services/attention", "services/attention/queue", "services/attention/engine", "services/attention/layer"},
		Reason: "whether work gets on is seen from outside: renewal knows pulses and deliveries, and nothing of sequences or layers",
		Bad:    [2]string{"services/attention/renewal", "services/attention"},
	},
	{
		Of:     []string{"services/expert/compute", "services/expert/residency"},
		Never:  []string{"services/expert/..."},
		Reason: "computing knows no functions, and functions know no rows' arithmetic: they are the bottom of the expert host, and serving asks them",
		Bad:    [2]string{"services/expert/residency", "services/expert/compute"},
	},
	{
		Of:     []string{"services/expert/serving"},
		Never:  []string{"services/expert", "services/expert/hints"},
		Reason: "what serves rows waits for nothing that is said of them",
		Bad:    [2]string{"services/expert/serving", "services/expert/hints"},
	},
	{
		Of:     []string{"services/expert/hints"},
		Never:  []string{"services/expert/..."},
		Reason: "hints ask the other rooms by interfaces of their own, so that they are tested alone; services/expert only wires them",
		Bad:    [2]string{"services/expert/hints", "services/expert/residency"},
	},
	{
		Of: []string{"services/expert/..."}, Except: []string{"services/expert/internal/..."},
		Never:  []string{"services/expert/internal/..."},
		Reason: "the rig plays a device and plans: it is for tests, which alone import it",
		Bad:    [2]string{"services/expert/serving", "services/expert/internal/rig"},
	},
	{
		Of: []string{"pkg/policy/...", "pkg/compute/sampling/..."},
		Never: []string{
			"context", "time", "net/...", "os/...", "log/...",
			"pkg/transport/bus/...", "pkg/process/telemetry/...", "pkg/process/lifecycle/...", "github.com/nats-io/...", "go.opentelemetry.io/...",
			"github.com/prometheus/...",
		},
		Reason: "policies are pure: the runtime and the simulator call the same functions, and the same input gives the same decision",
		Bad:    [2]string{"pkg/policy/scale", "time"},
	},
	{
		Of:     []string{"pkg/policy/cost"},
		Only:   []string{"std"},
		Reason: "devices, simulator and policies all ask what things take: it stands below all of them",
		Bad:    [2]string{"pkg/policy/cost", "pkg/policy/place"},
	},
	{
		Of:     []string{"pkg/policy/residency"},
		Only:   []string{"std", "pkg/policy/unit"},
		Reason: "devices and the simulator hold units by it, and a policy only ranks them: it stands below all of them",
		Bad:    [2]string{"pkg/policy/residency", "pkg/policy/world"},
	},
	{
		Of: []string{"pkg/policy/...", "pkg/compute/sampling/..."}, Except: []string{"pkg/policy/predict/train"},
		Never:  []string{"math/rand", "math/rand/v2"},
		Reason: "nothing in a decision is left to chance; training shuffles, by a seed",
		Bad:    [2]string{"pkg/policy/place", "math/rand/v2"},
	},
	{
		Of: []string{"pkg/serverless/rented", "pkg/serverless/batched", "pkg/serverless/routing", "loadtest/sim/..."},
		Only: []string{
			"std", "internal/quantile", "internal/splitmix", "pkg/compute/device/paced/profiles", "pkg/policy/...", "pkg/serverless/...", "loadtest/sim/...", "schemas/...",
		},
		Never:  []string{"context", "net/...", "os/...", "log/...", "math/rand", "math/rand/v2"},
		Reason: "the simulator has a clock of its own and calls the policies that the runtime calls; the same seed gives the same figures",
		Bad:    [2]string{"loadtest/sim", "pkg/transport/bus"},
	},
	{
		Of: []string{"pkg/compute/device/..."},
		Only: []string{
			"std", "internal/parallel", "internal/splitmix", "kernels/...", "pkg/compute/device/...", "pkg/compute/forward", "pkg/compute/kvcache", "pkg/compute/model", "pkg/compute/safetensors", "pkg/policy/cost/...", "pkg/policy/meter", "pkg/policy/residency", "pkg/policy/unit", "pgregory.net/rapid",
			"golang.org/x/sys/...", "gopkg.in/yaml.v3",
		},
		Reason: "a device holds and computes what it is told to; who wants what, and why, is decided above it",
		Bad:    [2]string{"pkg/compute/device", "pkg/policy/plan"},
	},
	{
		Of:     []string{"pkg/compute/forward/..."},
		Never:  []string{"pkg/compute/device/..."},
		Reason: "forward computes with weights that are lent to it; where they are held is a device's matter",
		Bad:    [2]string{"pkg/compute/forward", "pkg/compute/device"},
	},
	{
		Of:     []string{"pkg/request/client/..."},
		Only:   []string{"std", "schemas/...", "pkg/transport/leaving", "github.com/nats-io/...", "google.golang.org/protobuf/..."},
		Reason: "producers take this package into their programs: it must not bring a model server along",
		Bad:    [2]string{"pkg/request/client", "pkg/transport/bus"},
	},
	{
		Of:     []string{"pkg/transport/leaving"},
		Only:   []string{"std", "github.com/nats-io/nats.go"},
		Reason: "producers take it with the client: it decides when to leave a server, and knows nothing of what is asked there",
		Bad:    [2]string{"pkg/transport/leaving", "pkg/transport/bus"},
	},
	{
		Of:     []string{"pkg/request/tokenizer/words"},
		Only:   []string{"std", "github.com/dlclark/regexp2"},
		Reason: "how a text is cut and how a word is merged are known without any file's format",
		Bad:    [2]string{"pkg/request/tokenizer/words", "pkg/request/tokenizer"},
	},
	{
		Of: outsiders, AndTests: true,
		Only: []string{
			"std", "schemas/...", "pkg/request/client", "loadtest/...", "github.com/nats-io/nats.go/...",
			"google.golang.org/protobuf/...", "gonum.org/v1/...", "go.uber.org/goleak", "pgregory.net/rapid",
			"github.com/Shopify/toxiproxy/v2/...", "github.com/rs/zerolog", "internal/quantile", "internal/testkit",
		},
		Reason: "these measure what outsiders get, so they use public endpoints only; pkg/request/client is one, being bound to schemas itself",
		Bad:    [2]string{"loadtest/soak", "pkg/compute/forward"},
	},
	{
		Of: []string{"module"}, Except: []string{"kernels/cuda/real"}, AndTests: true,
		Never:  []string{"gorgonia.org/..."},
		Reason: "importing it calls a driver that most machines lack; one package behind the tag cuda makes that harmless",
		Bad:    [2]string{"pkg/compute/device/cuda", "gorgonia.org/cu"},
	},
	{
		Of: []string{"module"}, Except: []string{"kernels/cuda/nvml"}, AndTests: true,
		Never:  []string{"github.com/NVIDIA/..."},
		Reason: "it needs a C compiler, and a call that its library lacks ends the process; one package behind the tag cuda asks first",
		Bad:    [2]string{"pkg/process/gpus", "github.com/NVIDIA/go-nvml/pkg/nvml"},
	},
	{
		Of: []string{"module"}, Except: []string{"services/switchyard/up"},
		Never:  []string{"kernels/cuda/real", "kernels/cuda/nvml", "kernels/cuda/images"},
		Reason: "everything above the driver gets it handed in, so that all of it runs on the fake; tests of a real GPU open one",
		Bad:    [2]string{"pkg/compute/device/cuda", "kernels/cuda/real"},
	},
	{
		Of:     []string{"module"},
		Never:  []string{"kernels/cuda/fake"},
		Reason: "a GPU that is none is for tests",
		Bad:    [2]string{"services/switchyard", "kernels/cuda/fake"},
	},
	{
		Of: []string{"module"}, Except: []string{"pkg/transport/natsserver", "internal/testkit/testcluster"},
		Never:  []string{"github.com/nats-io/nats-server/v2/..."},
		Reason: "services talk to a server over a connection, wherever it runs; one package knows how to run one, and one how to run a cluster for tests",
		Bad:    [2]string{"services/gate", "github.com/nats-io/nats-server/v2/server"},
	},
	{
		Of:     []string{"pkg/transport/rights"},
		Only:   []string{"std", "schemas/...", "pkg/transport/catalog"},
		Never:  []string{"context", "net/...", "os/...", "log/...", "time"},
		Reason: "who may do what is a table: servers' settings, credentials and documents are made of it by others",
		Bad:    [2]string{"pkg/transport/rights", "github.com/nats-io/jwt/v2"},
	},
	{
		Of: []string{"module"}, Except: []string{"pkg/transport/bus", "pkg/transport/credentials", "pkg/transport/natsserver"},
		Never:  []string{"github.com/nats-io/jwt/...", "github.com/nats-io/nkeys"},
		Reason: "one package makes credentials, one reads them to log in, one believes them; nobody else sees a key",
		Bad:    [2]string{"services/gate", "github.com/nats-io/jwt/v2"},
	},
	{
		Of: []string{"module"}, Except: []string{"pkg/transport/kafka/embedded"},
		Never:  []string{"github.com/twmb/..."},
		Reason: "the embedded broker is one of many that samples can go to: one package runs it, everything else speaks to it over TCP",
		Bad:    [2]string{"pkg/transport/kafka", "github.com/twmb/franz-go/pkg/kfake"},
	},
	{
		Of: []string{"module"}, Except: []string{"pkg/transport/kafka/..."},
		Never:  []string{"github.com/segmentio/..."},
		Reason: "one package speaks to Kafka; services get a sink or a reader of samples",
		Bad:    [2]string{"services/gate", "github.com/segmentio/kafka-go"},
	},
	{
		Of: []string{"module"}, Except: []string{"pkg/policy/deployplan/bo", "loadtest/..."},
		Never:  []string{"gonum.org/v1/..."},
		Reason: "plots are for reports, and Gaussian processes for tuning; what serves has none",
		Bad:    [2]string{"services/gate", "gonum.org/v1/plot"},
	},
	{
		Of: []string{"module"}, Except: []string{"loadtest/chaos/proxies"},
		Never:  []string{"github.com/Shopify/...", "github.com/rs/..."},
		Reason: "one package spoils connections, and none that serves does",
		Bad:    [2]string{"services/gate", "github.com/Shopify/toxiproxy/v2"},
	},
	{
		Of:     []string{"loadtest/chaos/check", "loadtest/chaos/schedule", "loadtest/chaos/workload"},
		Only:   []string{"std"},
		Never:  []string{"net/...", "os/...", "context"},
		Reason: "the judge shares no code with what it judges, and what goes wrong and is asked follows from a seed alone",
		Bad:    [2]string{"loadtest/chaos/check", "schemas/switchyard/v1"},
	},
	{
		Of: []string{"module"}, Except: []string{"services/switchyard", "services/switchyard/cli", "services/switchyard/up", "loadtest/switchyard-lab"},
		Never:  []string{"github.com/alecthomas/..."},
		Reason: "flags are read by the two programs alone; everything else gets settings",
		Bad:    [2]string{"loadtest/bench", "github.com/alecthomas/kong"},
	},
	{
		Of:     []string{"services/switchyard/cli"},
		Never:  []string{"services/switchyard", "services/switchyard/up", "services/switchyard/cluster/..."},
		Reason: "what both programs read their command lines with knows none of their commands",
		Bad:    [2]string{"services/switchyard/cli", "services/switchyard/up"},
	},
	{
		Of: []string{"module"}, Except: []string{"services/switchyard/terminal"},
		Never:  []string{"golang.org/x/term"},
		Reason: "one package knows terminals; what runs without one does not ask",
		Bad:    [2]string{"services/expert", "golang.org/x/term"},
	},
	{
		Of:     []string{"services/switchyard/top/..."},
		Never:  []string{"services/...", "pkg/compute/...", "pkg/process/..."},
		Reason: "the live view needs nothing but a connection: it runs where no model is",
		Bad:    [2]string{"services/switchyard/top", "services/switchyard/cluster"},
	},
})

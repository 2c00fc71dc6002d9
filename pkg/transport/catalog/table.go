package catalog

// The services. All has them in this order: that of a token's way, then the control loop, then
// what stands aside.
var (
	// Tokenizer describes tokenizers.
	Tokenizer = Service{
		Name: "tokenizer", Help: "Run a tokenizer: prompts in, sequences and chunks out.",
		Place: Way, Fronts: true, Queue: "prompt", Kinds: []string{"token", "tokenize"},
		Role: Role{
			What: "takes prompts, answers producers", Grants: tokenizerGrants,
			Can:    "read all prompts and answers; forge records with a plausible writer and epoch; end any request",
			Cannot: "change plans or weights; make, change or delete a stream; answer producers",
		},
	}
	// Attention describes attention replicas.
	Attention = Service{
		Name: "attention", Noun: "attention replica", Help: "Run an attention replica: it owns the steps of its sequences.",
		Place: Way, Queue: "sequence", Tensors: []string{"block"}, Kinds: []string{"step"},
		Lack: "no attention replica of model %s is ready",
		Role: Role{
			What: "owns sequences, writes the token log", Grants: attentionGrants,
			Can:    "read sequences, tokens and blocks; forge records of any request; have other experts stand in, and so change answers",
			Cannot: "answer producers other than through the log",
		},
	}
	// Gate describes gates.
	Gate = Service{
		Name: "gate", Help: "Run a gate: it routes rows to experts.",
		Place: Way, Tensors: []string{"hidden", "gate"}, DropsLate: true,
		Lack: "no gate of model %s is ready: none has a plan whose functions are all warm",
		Role: Role{
			What: "routes rows to experts", Grants: gateGrants,
			Can:    "read hidden rows; send wrong rows to experts, or errors to attention; acknowledge plans for other gates",
			Cannot: "write tokens",
		},
	}
	// Expert describes expert hosts.
	Expert = Service{
		Name: "expert", Noun: "expert host", Help: "Run an expert host.",
		Place: Way, Tensors: []string{"expert", "host"}, Kinds: []string{"load"}, DropsLate: true,
		Lack: "no expert host of model %s is ready",
		Role: Role{
			What: "a host of experts, and a planner", Grants: expertGrants,
			Can: "read the rows of all hosts; send wrong partials, which are summed, and wrong blocks; say wrong loads, for other hosts too; " +
				"store wrong rows for other hosts; write plans that lead rows to hosts of its choice, and settings of plans",
			Cannot: "write tokens, answer producers",
		},
	}
	// Aggregator describes aggregators.
	Aggregator = Service{
		Name: "aggregator", Help: "Run an aggregator: it sums the experts' outputs.",
		Place: Way, Tensors: []string{"partial"}, DropsLate: true,
		Lack: "no aggregator of model %s is ready",
		Role: Role{
			What: "sums what experts computed", Grants: aggregatorGrants,
			Can:    "read partials; send wrong blocks; remove rows that are stored as objects, which are sent again",
			Cannot: "write tokens",
		},
	}
	// Predictor describes predictors.
	Predictor = Service{
		Name: "predictor", Help: "Run a predictor: it tells experts' loads some layers ahead.",
		Place: Loop,
		Role: Role{
			What: "tells loads ahead", Grants: predictorGrants,
			Can:    "read hidden rows, and the tokens of steps; predict wrong loads and give wrong hints, which move replicas and change no token",
			Cannot: "send rows, write plans",
		},
	}
	// Scaler describes scalers.
	Scaler = Service{
		Name: "scaler", Help: "Run a scaler: it plans by the experts' loads.",
		Place: Loop,
		Role: Role{
			What: "plans by load", Grants: scalerGrants,
			Can:    "write plans that lead rows to hosts of its choice, and settings of plans; clear what replicas say of functions",
			Cannot: "read or send rows, write tokens",
		},
	}
	// Gateway describes gateways.
	Gateway = Service{
		Name: "gateway", Help: "Run a gateway: clients of OpenAI's and Anthropic's HTTP APIs ask through it.",
		Place: Aside, Outside: true, Kinds: []string{"ask", "replay"},
		Role: Role{
			What: "asks for clients of OpenAI's and Anthropic's HTTP APIs", Grants: gatewayGrants,
			Can:    "ask in every tenant's name; cancel any request with a known or guessed id, and read its answer; read and change what passes through it",
			Cannot: "read others' inboxes; store anything but prompts; reach any other subject of the services",
		},
	}
)

// all is the table.
var all = []Service{Tokenizer, Attention, Gate, Expert, Aggregator, Predictor, Scaler, Gateway}

package catalog

func tokenizerGrants(n ModelNames) []Grant {
	interest := n.Prefix + ".interest." + n.Model + ".>" // what tokenizers tell each other
	return append(Joining(n), []Grant{
		{
			Reason:  "to take prompts, and to store asks and canaries as prompts",
			Publish: append(Work(n.Streams.Prompts().Name), n.Streams.Prompts().Subjects...),
		},
		Holding(n, "tokenizer"),
		{
			Reason:  "to keep what is given up, and to say which prompt it tries that may take it down",
			Publish: []string{Under(n.Dead("prompt")), n.Keys("trials"), Get(n.Bucket("trials"))},
		},
		{
			Reason: "to hand prompts on as sequences, to see how many wait, and which models are served",
			Publish: []string{
				n.Sequence(), API("CONSUMER.INFO", n.Streams.Sequences().Name) + ".attention", "$JS.API.STREAM.NAMES",
			},
		},
		{
			Reason:  "to say how many prompts wait, in its metrics, and whether their consumer is paused",
			Publish: []string{API("CONSUMER.INFO", n.Streams.Prompts().Name) + ".tokenizer"},
		},
		Logging(n),
		{
			Reason:  "to share the log's shards",
			Publish: []string{n.Keys("leases"), Get(n.Bucket("leases"))}, Subscribe: []string{n.Keys("leases")},
		},
		{
			Reason: "to end requests that are cancelled, whose caller is gone or whose stop string has come, to ask the others for waiting callers, " +
				"and to leave them its readers",
			Publish:   []string{n.AnyCancelled(), n.AnyCancelledOf(), n.AnyStop(), interest},
			Subscribe: []string{n.AnyCancelled(), n.AnyCancelledOf(), n.AnyStop(), interest},
		},
	}...)
}

func attentionGrants(n ModelNames) []Grant {
	return append(Joining(n), []Grant{
		{Reason: "to take sequences", Publish: Work(n.Streams.Sequences().Name)},
		Holding(n, "attention"),
		{Reason: "to keep what is given up", Publish: []string{Under(n.Dead("sequence"))}},
		Logging(n),
		{Reason: "to announce its steps", Publish: []string{n.Step()}},
		{Reason: "to send rows to the gates, and copies to the predictors that want them all", Publish: []string{n.AnyHidden(), n.AnyGate(), n.AnyRows()}},
		Taking("to take blocks", []string{n.AnyBlock()}, n.Streams.Block().Name),
		{Reason: "to wait for hosts that load a function", Subscribe: []string{n.Key("functions", "*.*")}},
		{
			Reason:    "to tell what its steps take, and, while it holds the lease of brownouts, to judge that and write directives",
			Publish:   append(Follow(n.Bucket("brownout")), n.Latencies(), n.Key("brownout", "directive"), Get(n.Bucket("brownout")), n.Key("leases", "brownout"), Get(n.Bucket("leases"))),
			Subscribe: []string{n.Latencies(), n.Key("leases", "brownout")},
		},
		{Reason: "to end requests", Subscribe: []string{n.AnyCancelled(), n.AnyStop()}},
	}...)
}

func gateGrants(n ModelNames) []Grant {
	all := append(Joining(n), []Grant{
		Following(n),
		{Reason: "to say which plans it uses", Publish: []string{n.Key("functions", "gate.*")}},
		Taking("to take rows", []string{n.AnyHidden(), n.AnyGate()}, n.Streams.Hidden().Name, n.Streams.Gate().Name),
		{Reason: "to send rows to experts", Publish: []string{n.Functions(), n.AnyHost()}},
		{Reason: "to refuse rows", Publish: []string{n.AnyBlock()}},
	}...)
	return append(all, StoringRows(n)...)
}

func expertGrants(n ModelNames) []Grant {
	drop := make([]string, len(n.Layers))
	for i, stream := range n.Experts() {
		drop[i] = Under(API("CONSUMER.DELETE", stream))
	}
	all := append(Joining(n), []Grant{
		Following(n),
		{Reason: "to say how its functions are, and to clear what the killed have left", Publish: []string{n.Keys("functions")}},
		Taking("to take rows of its functions", []string{n.Functions(), n.AnyHost()}, append(n.Experts(), n.Streams.Host().Name)...),
		{Reason: "to drop the groups of functions that are no more", Publish: drop},
		{Reason: "to send what it computed, or to refuse rows", Publish: []string{n.AnyPartial(), n.AnyBlock()}},
		{Reason: "to be told which experts it will need", Subscribe: []string{n.AnyHint()}},
		{Reason: "to say what each expert computed", Publish: []string{n.Load()}, Subscribe: []string{n.LoadAsk()}},
		Planning(n),
	}...)
	return append(all, append(StoringRows(n), FetchingRows(n)...)...)
}

func aggregatorGrants(n ModelNames) []Grant {
	all := append(Joining(n), []Grant{
		Taking("to take partials", []string{n.AnyPartial()}, n.Streams.Partial().Name),
		{Reason: "to send blocks", Publish: []string{n.AnyBlock()}},
	}...)
	return append(all, append(FetchingRows(n), RemovingRows(n)...)...)
}

func predictorGrants(n ModelNames) []Grant {
	return append(Joining(n), []Grant{
		{Reason: "to look at rows on their way to gates, and at the steps they are of", Subscribe: []string{n.AnyHidden(), n.AnyGate(), n.Step()}},
		{Reason: "to see the copies of all rows, where they are kept for it", Publish: Follow(n.Streams.Rows().Name)},
		{Reason: "to follow plans, which say what hosts serve an expert", Publish: []string{Under(API("CONSUMER.MSG.NEXT", n.Bucket("plans")))}},
		{Reason: "to tell hosts which experts they will need", Publish: []string{n.AnyHint()}},
	}...)
}

func scalerGrants(n ModelNames) []Grant {
	return append(Joining(n), []Grant{
		Following(n),
		{Reason: "to clear what the killed have left of functions", Publish: []string{n.Keys("functions")}},
		Planning(n),
	}...)
}

func gatewayGrants(n ModelNames) []Grant {
	return []Grant{
		{Reason: "to find the models that are served", Publish: []string{"$SRV.INFO." + n.Prefix + "-tokenize"}},
	}
}

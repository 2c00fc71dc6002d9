package rights

import (
	"slices"

	"github.com/switchyard/switchyard/schemas"
)

func services() []role {
	return []role{
		{
			"tokenizer", "takes prompts, answers producers", tokenizing,
			"read all prompts and answers; forge records with a plausible writer and epoch; end any request",
			"change plans or weights; make, change or delete a stream; answer producers",
		},
		{
			"attention", "owns sequences, writes the token log", attending,
			"read sequences, tokens and blocks; forge records of any request",
			"answer producers other than through the log",
		},
		{
			"gate", "routes rows to experts", gating,
			"read hidden rows; send wrong rows to experts, or errors to attention; acknowledge plans for other gates",
			"write tokens",
		},
		{
			"expert", "a host of experts, and a planner", hosting,
			"read the rows of all hosts; send wrong partials, which are summed; say wrong loads, for other hosts too; " +
				"write plans that lead rows to hosts of its choice, and settings of plans",
			"write tokens, answer producers",
		},
		{
			"aggregator", "sums what experts computed", aggregating,
			"read partials; send wrong blocks",
			"write tokens",
		},
		{
			"predictor", "tells loads ahead", predicting,
			"read hidden rows, and the tokens of steps; predict wrong loads and give wrong hints, which move replicas and change no token",
			"send rows, write plans",
		},
		{
			"scaler", "plans by load", scaling,
			"write plans that lead rows to hosts of its choice, and settings of plans; clear what replicas say of functions",
			"read or send rows, write tokens",
		},
	}
}

// draining adds to each service's rights those of a replica that an operator can ask to
// drain.
func draining(roles []role) []role {
	for i, r := range roles {
		roles[i].grants = func(n names) []Grant {
			return append(r.grants(n), Grant{
				Reason:    "to be asked to drain, and to say how that goes",
				Subscribe: []string{n.Drain(r.name, "*")}, Publish: []string{n.Drained(r.name, "*")},
			})
		}
	}
	return roles
}

// joining is what every service needs to have its place.
func joining(n names) []Grant {
	return []Grant{
		{
			Reason:  "to find its streams and buckets",
			Publish: apis("STREAM.INFO", append(n.all(), n.weights())...),
		},
		{
			Reason:  "to read the plan",
			Publish: append(watch(n.bucket("plans")), get(n.bucket("plans"))),
		},
		{
			Reason:  "to read weights of the object store, if that is where its model is",
			Publish: append(follow(n.weights()), api("STREAM.MSG.GET", n.weights())),
		},
		{
			Reason:  "to announce itself, and to see live replicas",
			Publish: []string{n.keys("members"), n.AnyHere()}, Subscribe: []string{n.keys("members"), n.AnyHere()},
		},
	}
}

// following is for services that act on plans and on what hosts say of functions.
func following(n names) Grant {
	return Grant{
		Reason:  "to follow plans, and what hosts and gates say of functions",
		Publish: append(follow(n.bucket("functions")), under(api("CONSUMER.MSG.NEXT", n.bucket("plans")))),
	}
}

// logging is for services that write and read token logs.
func logging(n names) Grant {
	stream := n.streams.Tokens().Name
	return Grant{
		Reason:  "to write the token log, and to read what is in it",
		Publish: append(follow(stream), n.tokens(), api("STREAM.MSG.GET", stream)),
	}
}

// holding is for replicas that hand on what they took of a queue.
func holding(n names, service string) Grant {
	all := []string{n.AnyHoldings(service)}
	return Grant{Reason: "to tell its siblings what it has taken, so that they give it back when it is gone", Publish: all, Subscribe: all}
}

// tokens are all token logs.
func (n names) tokens() string { return n.Prefix + ".token." + n.Model + ".>" }

// taking is for receivers of tensors: out of streams or, with core hops, as they come. A
// user who may do the one sees no more by the other.
func taking(reason string, subjects []string, streams ...string) Grant {
	return Grant{Reason: reason, Publish: work(streams...), Subscribe: subjects}
}

// functions are the rows for all functions of experts.
func (n names) functions() string { return n.Prefix + ".expert." + n.Model + ".>" }

// planning is for services that may hold the planner's lease.
func planning(n names) []Grant {
	lease, plans := n.key("leases", "planner"), n.keys("plans")
	return []Grant{
		{
			Reason:  "to keep the plan, while it holds the planner's lease",
			Publish: []string{plans, lease, get(n.bucket("leases"))}, Subscribe: []string{lease, plans},
		},
	}
}

func tokenizing(n names) []Grant {
	return append(joining(n), []Grant{
		{
			Reason:  "to take prompts, and to store asks and canaries as prompts",
			Publish: append(work(n.streams.Prompts().Name), n.streams.Prompts().Subjects...),
		},
		holding(n, "tokenizer"),
		{
			Reason:  "to keep what is given up, and to say which prompt it tries that may take it down",
			Publish: []string{under(n.Dead("prompt")), n.keys("trials"), get(n.bucket("trials"))},
		},
		{
			Reason: "to hand prompts on as sequences, to see how many wait, and which models are served",
			Publish: []string{
				n.Sequence(), api("CONSUMER.INFO", n.streams.Sequences().Name) + ".attention", "$JS.API.STREAM.NAMES",
			},
		},
		{
			Reason:  "to say how many prompts wait, in its metrics",
			Publish: []string{api("CONSUMER.INFO", n.streams.Prompts().Name) + ".tokenizer"},
		},
		logging(n),
		{
			Reason:  "to share the log's shards",
			Publish: []string{n.keys("leases"), get(n.bucket("leases"))}, Subscribe: []string{n.keys("leases")},
		},
		{
			Reason: "to end requests that are cancelled, whose caller is gone or whose stop string has come, to ask the others for waiting callers, " +
				"and to leave them its readers",
			Publish:   []string{n.AnyCancelled(), n.AnyStop(), n.interest()},
			Subscribe: []string{n.AnyCancelled(), n.AnyStop(), n.interest()},
		},
	}...)
}

// edge is what a tokenizer is to producers, in their account.
func edge() role {
	return role{
		Edge, "tokenizers, where producers are", fronting,
		"read what producers ask, fetch again and cancel; answer them in a tokenizer's place",
		"store anything; reach a subject of the services",
	}
}

func fronting(n names) []Grant {
	return []Grant{
		{
			Reason:    "to hear what producers ask, fetch again and cancel, and what they send for a model that no replica serves",
			Subscribe: slices.Concat(n.AnyAsk(), n.AnyPrompt(), []string{n.Replay(), n.AnyCancel()}),
		},
		{Reason: "to be found as a NATS micro service", Subscribe: []string{"$SRV.>"}},
		{
			Reason:    "to answer producers, and to notice that one is gone",
			Publish:   []string{under(schemas.DefaultInboxPrefix[:len(schemas.DefaultInboxPrefix)-1])},
			Subscribe: []string{n.Prefix + ".probe." + n.Model + ".>"},
		},
		{Reason: "to send errors that have no other address", Publish: []string{n.Prefix + ".rejected.*"}},
	}
}

// interest is what tokenizers tell each other.
func (n names) interest() string { return n.Prefix + ".interest." + n.Model + ".>" }

func attending(n names) []Grant {
	return append(joining(n), []Grant{
		{Reason: "to take sequences", Publish: work(n.streams.Sequences().Name)},
		holding(n, "attention"),
		{Reason: "to keep what is given up", Publish: []string{under(n.Dead("sequence"))}},
		logging(n),
		{Reason: "to announce its steps", Publish: []string{n.Step()}},
		{Reason: "to send rows to the gates, and copies to the predictors that want them all", Publish: []string{n.AnyHidden(), n.AnyGate(), n.AnyRows()}},
		taking("to take blocks", []string{n.AnyBlock()}, n.streams.Block().Name),
		{Reason: "to wait for hosts that load a function", Subscribe: []string{n.key("functions", "*.*")}},
		{Reason: "to end requests", Subscribe: []string{n.AnyCancelled(), n.AnyStop()}},
	}...)
}

func gating(n names) []Grant {
	return append(joining(n), []Grant{
		following(n),
		{Reason: "to say which plans it uses", Publish: []string{n.key("functions", "gate.*")}},
		taking("to take rows", []string{n.AnyHidden(), n.AnyGate()}, n.streams.Hidden().Name, n.streams.Gate().Name),
		{Reason: "to send rows to experts", Publish: []string{n.functions(), n.AnyHost()}},
		{Reason: "to refuse rows", Publish: []string{n.AnyBlock()}},
	}...)
}

func hosting(n names) []Grant {
	drop := make([]string, len(n.layers))
	for i, stream := range n.experts() {
		drop[i] = under(api("CONSUMER.DELETE", stream))
	}
	return slices.Concat(joining(n), []Grant{
		following(n),
		{Reason: "to say how its functions are, and to clear what the killed have left", Publish: []string{n.keys("functions")}},
		taking("to take rows of its functions", []string{n.functions(), n.AnyHost()}, append(n.experts(), n.streams.Host().Name)...),
		{Reason: "to drop the groups of functions that are no more", Publish: drop},
		{Reason: "to send what it computed, or to refuse rows", Publish: []string{n.AnyPartial(), n.AnyBlock()}},
		{Reason: "to be told which experts it will need", Subscribe: []string{n.AnyHint()}},
		{Reason: "to say what each expert computed", Publish: []string{n.Load()}, Subscribe: []string{n.LoadAsk()}},
	}, planning(n))
}

func aggregating(n names) []Grant {
	return append(joining(n), []Grant{
		taking("to take partials", []string{n.AnyPartial()}, n.streams.Partial().Name),
		{Reason: "to send blocks", Publish: []string{n.AnyBlock()}},
	}...)
}

func predicting(n names) []Grant {
	return append(joining(n), []Grant{
		{Reason: "to look at rows on their way to gates, and at the steps they are of", Subscribe: []string{n.AnyHidden(), n.AnyGate(), n.Step()}},
		{Reason: "to see the copies of all rows, where they are kept for it", Publish: follow(n.streams.Rows().Name)},
		{Reason: "to tell hosts which experts they will need", Publish: []string{n.AnyHint()}},
	}...)
}

func scaling(n names) []Grant {
	return slices.Concat(joining(n), []Grant{
		following(n),
		{Reason: "to clear what the killed have left of functions", Publish: []string{n.keys("functions")}},
	}, planning(n))
}

// Package about describes tokenizers to everything else (pkg/transport/catalog).
package about

import (
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/grant"
)

// Service is the description.
func Service() catalog.Service {
	return catalog.Service{
		Name: "tokenizer", Help: "Run a tokenizer: prompts in, sequences and chunks out.",
		Place: catalog.Way, Fronts: true, Queue: "prompt", Kinds: []string{"token", "tokenize"},
		Role: catalog.Role{
			What: "takes prompts, answers producers", Grants: grants,
			Can:    "read all prompts and answers; forge records with a plausible writer and epoch; end any request",
			Cannot: "change plans or weights; make, change or delete a stream; answer producers",
		},
	}
}

func grants(n grant.Names) []grant.Grant {
	interest := n.Prefix + ".interest." + n.Model + ".>" // what tokenizers tell each other
	return append(grant.Joining(n), []grant.Grant{
		{
			Reason:  "to take prompts, and to store asks and canaries as prompts",
			Publish: append(grant.Work(n.Streams.Prompts().Name), n.Streams.Prompts().Subjects...),
		},
		grant.Holding(n, "tokenizer"),
		{
			Reason:  "to keep what is given up, and to say which prompt it tries that may take it down",
			Publish: []string{grant.Under(n.Dead("prompt")), n.Keys("trials"), grant.Get(n.Bucket("trials"))},
		},
		{
			Reason: "to hand prompts on as sequences, to see how many wait, and which models are served",
			Publish: []string{
				n.Sequence(), grant.API("CONSUMER.INFO", n.Streams.Sequences().Name) + ".attention", "$JS.API.STREAM.NAMES",
			},
		},
		{
			Reason:  "to say how many prompts wait, in its metrics",
			Publish: []string{grant.API("CONSUMER.INFO", n.Streams.Prompts().Name) + ".tokenizer"},
		},
		grant.Logging(n),
		{
			Reason:  "to share the log's shards",
			Publish: []string{n.Keys("leases"), grant.Get(n.Bucket("leases"))}, Subscribe: []string{n.Keys("leases")},
		},
		{
			Reason: "to end requests that are cancelled, whose caller is gone or whose stop string has come, to ask the others for waiting callers, " +
				"and to leave them its readers",
			Publish:   []string{n.AnyCancelled(), n.AnyCancelledOf(), n.AnyStop(), interest},
			Subscribe: []string{n.AnyCancelled(), n.AnyCancelledOf(), n.AnyStop(), interest},
		},
	}...)
}

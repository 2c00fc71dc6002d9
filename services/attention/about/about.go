// Package about describes attention replicas to everything else (pkg/transport/catalog).
package about

import (
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/grant"
)

// Service is the description.
func Service() catalog.Service {
	return catalog.Service{
		Name: "attention", Noun: "attention replica", Help: "Run an attention replica: it owns the steps of its sequences.",
		Place: catalog.Way, After: "tokenizer", Queue: "sequence", Tensors: []string{"block"}, Kinds: []string{"step"},
		Lack: "no attention replica of model %s is ready",
		Role: catalog.Role{
			What: "owns sequences, writes the token log", Grants: grants,
			Can:    "read sequences, tokens and blocks; forge records of any request; have other experts stand in, and so change answers",
			Cannot: "answer producers other than through the log",
		},
	}
}

func grants(n grant.Names) []grant.Grant {
	return append(grant.Joining(n), []grant.Grant{
		{Reason: "to take sequences", Publish: grant.Work(n.Streams.Sequences().Name)},
		grant.Holding(n, "attention"),
		{Reason: "to keep what is given up", Publish: []string{grant.Under(n.Dead("sequence"))}},
		grant.Logging(n),
		{Reason: "to announce its steps", Publish: []string{n.Step()}},
		{Reason: "to send rows to the gates, and copies to the predictors that want them all", Publish: []string{n.AnyHidden(), n.AnyGate(), n.AnyRows()}},
		grant.Taking("to take blocks", []string{n.AnyBlock()}, n.Streams.Block().Name),
		{Reason: "to wait for hosts that load a function", Subscribe: []string{n.Key("functions", "*.*")}},
		{
			Reason:    "to tell what its steps take, and, while it holds the lease of brownouts, to judge that and write directives",
			Publish:   append(grant.Follow(n.Bucket("brownout")), n.Latencies(), n.Key("brownout", "directive"), grant.Get(n.Bucket("brownout")), n.Key("leases", "brownout"), grant.Get(n.Bucket("leases"))),
			Subscribe: []string{n.Latencies(), n.Key("leases", "brownout")},
		},
		{Reason: "to end requests", Subscribe: []string{n.AnyCancelled(), n.AnyStop()}},
	}...)
}

// Package about describes expert hosts to everything else (pkg/transport/catalog).
package about

import (
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/grant"
)

// Service is the description.
func Service() catalog.Service {
	return catalog.Service{
		Name: "expert", Noun: "expert host", Help: "Run an expert host.",
		Place: catalog.Way, After: "gate", Tensors: []string{"expert", "host"}, Kinds: []string{"load"}, DropsLate: true,
		Lack: "no expert host of model %s is ready",
		Role: catalog.Role{
			What: "a host of experts, and a planner", Grants: grants,
			Can: "read the rows of all hosts; send wrong partials, which are summed, and wrong blocks; say wrong loads, for other hosts too; " +
				"store wrong rows for other hosts; write plans that lead rows to hosts of its choice, and settings of plans",
			Cannot: "write tokens, answer producers",
		},
	}
}

func grants(n grant.Names) []grant.Grant {
	drop := make([]string, len(n.Layers))
	for i, stream := range n.Experts() {
		drop[i] = grant.Under(grant.API("CONSUMER.DELETE", stream))
	}
	all := append(grant.Joining(n), []grant.Grant{
		grant.Following(n),
		{Reason: "to say how its functions are, and to clear what the killed have left", Publish: []string{n.Keys("functions")}},
		grant.Taking("to take rows of its functions", []string{n.Functions(), n.AnyHost()}, append(n.Experts(), n.Streams.Host().Name)...),
		{Reason: "to drop the groups of functions that are no more", Publish: drop},
		{Reason: "to send what it computed, or to refuse rows", Publish: []string{n.AnyPartial(), n.AnyBlock()}},
		{Reason: "to be told which experts it will need", Subscribe: []string{n.AnyHint()}},
		{Reason: "to say what each expert computed", Publish: []string{n.Load()}, Subscribe: []string{n.LoadAsk()}},
		grant.Planning(n),
	}...)
	return append(all, append(grant.StoringRows(n), grant.FetchingRows(n)...)...)
}

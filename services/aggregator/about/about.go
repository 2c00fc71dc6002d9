// Package about describes aggregators to everything else (pkg/transport/catalog).
package about

import (
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/grant"
)

// Service is the description.
func Service() catalog.Service {
	return catalog.Service{
		Name: "aggregator", Help: "Run an aggregator: it sums the experts' outputs.",
		Place: catalog.Way, After: "expert", Tensors: []string{"partial"}, DropsLate: true,
		Lack: "no aggregator of model %s is ready",
		Role: catalog.Role{
			What: "sums what experts computed", Grants: grants,
			Can:    "read partials; send wrong blocks; remove rows that are stored as objects, which are sent again",
			Cannot: "write tokens",
		},
	}
}

func grants(n grant.Names) []grant.Grant {
	all := append(grant.Joining(n), []grant.Grant{
		grant.Taking("to take partials", []string{n.AnyPartial()}, n.Streams.Partial().Name),
		{Reason: "to send blocks", Publish: []string{n.AnyBlock()}},
	}...)
	return append(all, append(grant.FetchingRows(n), grant.RemovingRows(n)...)...)
}

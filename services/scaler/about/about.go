// Package about describes scalers to everything else (pkg/transport/catalog).
package about

import (
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/grant"
)

// Service is the description.
func Service() catalog.Service {
	return catalog.Service{
		Name: "scaler", Help: "Run a scaler: it plans by the experts' loads.",
		Place: catalog.Loop,
		Role: catalog.Role{
			What: "plans by load", Grants: grants,
			Can:    "write plans that lead rows to hosts of its choice, and settings of plans; clear what replicas say of functions",
			Cannot: "read or send rows, write tokens",
		},
	}
}

func grants(n grant.Names) []grant.Grant {
	return append(grant.Joining(n), []grant.Grant{
		grant.Following(n),
		{Reason: "to clear what the killed have left of functions", Publish: []string{n.Keys("functions")}},
		grant.Planning(n),
	}...)
}

// Package about describes predictors to everything else (pkg/transport/catalog).
package about

import (
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/grant"
)

// Service is the description.
func Service() catalog.Service {
	return catalog.Service{
		Name: "predictor", Help: "Run a predictor: it tells experts' loads some layers ahead.",
		Place: catalog.Loop,
		Role: catalog.Role{
			What: "tells loads ahead", Grants: grants,
			Can:    "read hidden rows, and the tokens of steps; predict wrong loads and give wrong hints, which move replicas and change no token",
			Cannot: "send rows, write plans",
		},
	}
}

func grants(n grant.Names) []grant.Grant {
	return append(grant.Joining(n), []grant.Grant{
		{Reason: "to look at rows on their way to gates, and at the steps they are of", Subscribe: []string{n.AnyHidden(), n.AnyGate(), n.Step()}},
		{Reason: "to see the copies of all rows, where they are kept for it", Publish: grant.Follow(n.Streams.Rows().Name)},
		{Reason: "to follow plans, which say what hosts serve an expert", Publish: []string{grant.Under(grant.API("CONSUMER.MSG.NEXT", n.Bucket("plans")))}},
		{Reason: "to tell hosts which experts they will need", Publish: []string{n.AnyHint()}},
	}...)
}

// Package about describes gates to everything else (pkg/transport/catalog).
package about

import (
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/grant"
)

// Service is the description.
func Service() catalog.Service {
	return catalog.Service{
		Name: "gate", Help: "Run a gate: it routes rows to experts.",
		Place: catalog.Way, After: "attention", Tensors: []string{"hidden", "gate"}, DropsLate: true,
		Lack: "no gate of model %s is ready: none has a plan whose functions are all warm",
		Role: catalog.Role{
			What: "routes rows to experts", Grants: grants,
			Can:    "read hidden rows; send wrong rows to experts, or errors to attention; acknowledge plans for other gates",
			Cannot: "write tokens",
		},
	}
}

func grants(n grant.Names) []grant.Grant {
	all := append(grant.Joining(n), []grant.Grant{
		grant.Following(n),
		{Reason: "to say which plans it uses", Publish: []string{n.Key("functions", "gate.*")}},
		grant.Taking("to take rows", []string{n.AnyHidden(), n.AnyGate()}, n.Streams.Hidden().Name, n.Streams.Gate().Name),
		{Reason: "to send rows to experts", Publish: []string{n.Functions(), n.AnyHost()}},
		{Reason: "to refuse rows", Publish: []string{n.AnyBlock()}},
	}...)
	return append(all, grant.StoringRows(n)...)
}

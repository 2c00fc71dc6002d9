// Package about describes gateways to everything else (pkg/transport/catalog).
package about

import (
	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/pkg/transport/grant"
)

// Service is the description.
func Service() catalog.Service {
	return catalog.Service{
		Name: "gateway", Help: "Run a gateway: clients of OpenAI's HTTP API ask through it.",
		Place: catalog.Aside, Outside: true, Kinds: []string{"ask", "replay"},
		Role: catalog.Role{
			What: "asks for clients of OpenAI's HTTP API", Grants: grants,
			Can:    "ask in every tenant's name; cancel any request with a known or guessed id, and read its answer; read and change what passes through it",
			Cannot: "read others' inboxes; store anything but prompts; reach any other subject of the services",
		},
	}
}

// grants are beside those of all tenants' producers.
func grants(n grant.Names) []grant.Grant {
	return []grant.Grant{
		{Reason: "to find the models that are served", Publish: []string{"$SRV.INFO." + n.Prefix + "-tokenize"}},
	}
}

package rights

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/schemas"
)

// edge is what a tokenizer is to producers, in their account.
func edge() role {
	return role{Edge, catalog.Role{
		What: "tokenizers, where producers are", Grants: fronting,
		Can:    "read what producers ask, fetch again and cancel; answer them in a tokenizer's place",
		Cannot: "store anything; reach a subject of the services",
	}}
}

func fronting(n catalog.ModelNames) []Grant {
	return []Grant{
		{
			Reason:    "to hear what producers ask, fetch again, cancel, have forgotten and tokenized, and what they send for a model that no replica serves",
			Subscribe: slices.Concat(n.AnyAsk(), n.AnyPrompt(), n.Replays(), n.AnyCancels(), []string{n.AnyForget(), n.Tokenize()}),
		},
		{Reason: "to be found as a NATS micro service", Subscribe: []string{"$SRV.>"}},
		{
			Reason:    "to answer producers, and to notice that one is gone",
			Publish:   []string{catalog.Under(schemas.DefaultInboxPrefix[:len(schemas.DefaultInboxPrefix)-1])},
			Subscribe: []string{n.Prefix + ".probe." + n.Model + ".>"},
		},
		{Reason: "to send errors that have no other address", Publish: []string{n.Prefix + ".rejected.*"}},
	}
}

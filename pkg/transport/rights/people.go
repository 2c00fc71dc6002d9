package rights

import (
	"slices"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
	"github.com/switchyard/switchyard/schemas"
)

// producers are the default tenant's, and one for each other tenant.
func producers(tenants []string) []role {
	roles := []role{producer(schemas.DefaultTenant, "sends prompts")}
	for _, t := range tenants {
		roles = append(roles, producer(t, "sends prompts for tenant "+t))
	}
	return roles
}

func producer(tenant, what string) role {
	return role{ProducerOf(tenant), catalog.Role{
		What: what, Grants: producing(tenant),
		Can: "cancel a request of the same tenant with a known or guessed id, and read its answer by `replay` or by repeating its body; " +
			"have a prompt taken for a copy by its `Nats-Msg-Id`; have JetStream's acknowledgement of a prompt, whose text " +
			"is the server's, sent to any subject of the producers' account",
		Cannot: "read another's inbox; ask for another tenant, or a model that `--models` does not name; store anything but prompts; reach any other subject of the services",
	}}
}

func others() []role {
	return []role{
		{Top, catalog.Role{
			What: "looks on with `switchyard top`", Grants: looking,
			Can:    "see the names, settings and sizes of all streams; have what is in the buckets of members, plans and functions delivered to any subject, by a consumer",
			Cannot: "read or write anything of requests",
		}},
		{Operator, catalog.Role{
			What: "puts models into the object store, changes settings of plans and brownouts, drains replicas, and looks after dead letters", Grants: keeping,
			Can: "end any replica, or all of them, by asking it to drain; decide what is computed, as services believe the model's objects; delete them; have experts moved by settings of plans, and other experts stand in by those of brownouts; " +
				"read dead letters, and token logs, which have prompts and answers; send prompts and sequences in any producer's name",
			Cannot: "read prompts and sequences that wait; write plans themselves; make, change or delete a stream",
		}},
		{Setup, catalog.Role{
			What: "makes streams with `switchyard setup`", Grants: makingStreams,
			Can:    "read and change everything that goes through the account, as a stream may take in any subject and send it on; delete all that is stored",
			Cannot: "open a subscription to anything but its inboxes",
		}},
	}
}

// producing is for a tenant's producers. What they fetch again and cancel crosses to tokenizers
// under the tenant's name (Crossings).
func producing(tenant string) func(catalog.ModelNames) []Grant {
	return func(n catalog.ModelNames) []Grant {
		return append(asking(tenant, n), Grant{Reason: "to fetch answers again", Publish: []string{n.Replay()}}, Grant{Reason: "to cancel", Publish: []string{n.AnyCancel()}})
	}
}

// naming is for who may name a tenant when it fetches answers again, cancels and deletes.
func naming(tenant string, n catalog.ModelNames) []Grant {
	return append(asking(tenant, n),
		Grant{Reason: "to fetch answers again", Publish: []string{n.ReplayOf(tenant)}},
		Grant{Reason: "to cancel, and to have answers deleted", Publish: []string{n.CancelOf(tenant, "*"), n.Forget(tenant, "*")}})
}

// asking is for asking in a tenant's name. The default one's subjects also have
// a form without tenant and class.
func asking(tenant string, n catalog.ModelNames) []Grant {
	every := schemas.Flow{Tenant: tenant, Class: "*"}
	prompts := []string{n.AskOf(every), n.PromptOf(every)}
	if tenant == schemas.DefaultTenant {
		prompts = append([]string{n.Ask(), n.Prompt()}, prompts...)
	}
	return []Grant{
		{Reason: "to ask, and to publish prompts", Publish: prompts},
		{Reason: "to have prompts tokenized", Publish: []string{n.Tokenize()}},
	}
}

func looking(n catalog.ModelNames) []Grant {
	return []Grant{
		{Reason: "to see how full the streams are", Publish: []string{"$JS.API.STREAM.LIST"}},
		{
			Reason:  "to see how many prompts and sequences wait, and how many are in hand",
			Publish: []string{catalog.API("CONSUMER.INFO", n.Streams.Prompts().Name) + ".tokenizer", catalog.API("CONSUMER.INFO", n.Streams.Sequences().Name) + ".attention"},
		},
		{Reason: "to see live replicas", Publish: append(n.Look("members"), catalog.Get(n.Bucket("members")))},
		{Reason: "to see which replicas experts have", Publish: slices.Concat(n.Look("plans"), n.Look("functions"))},
		{Reason: "to ask for what each expert has computed, and to hear it", Publish: []string{n.LoadAsk()}, Subscribe: []string{n.Load()}},
	}
}

// keeping is for the operator, who puts models into the object store, says what plans are to be like, and
// looks after what was given up.
func keeping(n catalog.ModelNames) []Grant {
	w := n.Weights()
	subjects := append(catalog.Follow(w), "$JS.API.STREAM.NAMES", catalog.API("STREAM.MSG.GET", w), catalog.Under("$O."+w[len("OBJ_"):]))
	for _, call := range []string{"INFO", "PURGE"} {
		subjects = append(subjects, catalog.API("STREAM."+call, w))
	}
	dead := n.Streams.Dead().Name
	return []Grant{
		{Reason: "to put models into the object store, to list them and to remove them", Publish: subjects},
		{
			Reason:  "to see plans, and to change what they are to be like (`switchyard plan`)",
			Publish: append(n.Look("plans"), catalog.Get(n.Bucket("plans")), n.Key("plans", "settings")),
		},
		{
			Reason:  "to see how far a brownout goes, and to set that (`switchyard brownout`)",
			Publish: append(n.Look("brownout"), catalog.Get(n.Bucket("brownout")), n.Key("brownout", "settings")),
		},
		{Reason: "to see live replicas (`switchyard plan`, `switchyard drain`)", Publish: n.Look("members")},
		{
			Reason:  "to ask a replica to drain, to hear how that goes, and to see whether it has a connection still (`switchyard drain`)",
			Publish: []string{n.Drain("*", "*"), n.AnyHere()}, Subscribe: []string{n.Drained("*", "*")},
		},
		{
			Reason:  "to see what was given up, and to drop it (`switchyard dlq`)",
			Publish: []string{catalog.API("STREAM.INFO", dead), catalog.API("STREAM.MSG.GET", dead), catalog.API("STREAM.MSG.DELETE", dead), catalog.API("STREAM.PURGE", dead)},
		},
		{
			Reason:  "to send what was given up again, unless the log of its request has ended",
			Publish: append([]string{catalog.API("STREAM.MSG.GET", n.Streams.Tokens().Name), n.Sequence()}, n.Prompts()...),
		},
	}
}

// makingStreams is for the user who makes streams and buckets, keeps them as they are to be, and
// makes those of tensors anew.
func makingStreams(n catalog.ModelNames) []Grant {
	all := append(n.All(), n.Weights(), n.Streams.Trial().Name)
	return []Grant{
		{
			Reason: "to find streams and buckets, to make those that are missing, and to change those that differ",
			Publish: slices.Concat([]string{"$JS.API.STREAM.NAMES", "$JS.API.INFO"},
				catalog.APIs("STREAM.INFO", all...), catalog.APIs("STREAM.CREATE", all...), catalog.APIs("STREAM.UPDATE", all...)),
		},
		{
			Reason:  "to make streams of tensors anew in a cluster, when the server that has one is gone, to take back what there is no room for, and to remake what cannot be changed",
			Publish: catalog.APIs("STREAM.DELETE", all...),
		},
		{
			Reason:  "to read which layers a model of the object store has",
			Publish: append(catalog.Follow(n.Weights()), catalog.API("STREAM.MSG.GET", n.Weights())),
		},
	}
}

package rights

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/switchyard/switchyard/pkg/transport/catalog"
)

const pageHead = `# Rights

To add a user, see [users](operations/users.md#add-a-user). This page is made by ` + "`switchyard auth show`" + ` of the one table in ` + "`pkg/transport/rights`" + `, from which
` + "`switchyard auth init`" + ` makes credentials and ` + "[deploy/permissions.conf](../deploy/permissions.conf)" + `
is made, too. They are of a model ` + "`demo`" + ` and tenants ` + "`default` and `acme`" + `, and for all
` + "`--hops`" + `: a receiver of tensors may pull them from their streams (` + "`unacked`, `acked`" + `) and subscribe
to them (` + "`core`" + `; ` + "`unacked`" + `, what has one receiver by name). ` + "`<layer>`" + ` stands for each MoE layer. A service has the rights of [every service](#every-service) and those of
its own section; where rows go as objects, those of [rows in objects](#rows-in-objects), too.

`

const accountsText = `## Accounts

Services, operator and ` + "`top`" + ` are in the account ` + "`%[1]s`" + `, which has JetStream. ` + "`%[3]s`" + `, by which tokenizers hear
and answer producers, is in ` + "`%[2]s`" + `. Each tenant's producers are in one of their own, and gateways, which ask in the name of every
tenant, in ` + "`%[7]s`" + `. A message stays in its account, but for these subjects. A producer's message has at most %[4]d bytes, each connection %[5]d
subscriptions, and a tenant %[6]d connections, unless ` + "`--producer-payload`, `--producer-subs` and `--producer-conns`" + ` say otherwise.

| subject | crosses | so that |
|---|---|---|
`

func writeAccounts(b *strings.Builder, s Scope) {
	bounds := s.Bounds.OrDefaults()
	fmt.Fprintf(b, accountsText, ServicesAccount, EdgeAccount, Edge, bounds.Payload, bounds.Subs, bounds.Conns, GatewayAccount)
	for _, c := range s.Crossings() {
		from, to, why := c.From, c.To, "tokenizers hear it"
		switch {
		case c.Service:
			from, to, why = c.To, c.From, "JetStream stores it, and acknowledges it"
		case c.To == ServicesAccount:
			why = "`admin` hears errors that have no other address"
		case c.From == EdgeAccount:
			why = "its producers get answers"
		}
		if c.As != "" {
			why = fmt.Sprintf("tokenizers hear it as `%s`", c.As)
		}
		fmt.Fprintf(b, "| `%s` | %s → %s | %s |\n", c.Subject, from, to, why)
	}
	b.WriteString("\n")
}

// Page is the users as a page of Markdown: the matrix, each right with its reason, and
// what each user can do all the same.
func Page(s Scope) string {
	var b strings.Builder
	users := Users(s)
	b.WriteString(pageHead)
	writeAccounts(&b, s)
	writeMatrix(&b, users)
	writeAbuse(&b, users)
	shared := sharedGrants(users)
	writeGrants(&b, "Every service", shared)
	for _, u := range users {
		own := slices.DeleteFunc(slices.Clone(u.Grants), func(g Grant) bool { return slices.ContainsFunc(shared, equals(g)) })
		writeGrants(&b, fmt.Sprintf("%s: %s", u.Name, u.What), own)
	}
	writeObjects(&b, s, users)
	return b.String()
}

const objectsHead = `## Rows in objects

Rights that users have besides where ` + "`--objects`" + ` says that plans may have [transfers](design/transfer.md) indirect or pipelined.
They are not in the tables above.

| user | why | may publish |
|---|---|---|
`

// writeObjects writes which rights come with objects, where the scope has none.
func writeObjects(b *strings.Builder, s Scope, users []User) {
	with := s
	with.Models = slices.Clone(s.Models)
	for i := range with.Models {
		with.Models[i].Objects = true
	}
	var rows []string
	for i, u := range Users(with) {
		for _, g := range u.Grants {
			more := slices.DeleteFunc(g.Publish, func(subject string) bool { return Covers(users[i].Publish(), subject) })
			if len(more) > 0 {
				rows = append(rows, fmt.Sprintf("| %s | %s | %s |\n", u.Name, g.Reason, codes(more)))
			}
		}
	}
	if len(rows) > 0 {
		b.WriteString(objectsHead + strings.Join(rows, "") + "\n")
	}
}

func equals(g Grant) func(Grant) bool {
	return func(o Grant) bool { return reflect.DeepEqual(g, o) }
}

// inside are the services of the services' account.
func inside() (names []string) {
	for _, s := range catalog.All() {
		if !s.Outside {
			names = append(names, s.Name)
		}
	}
	return names
}

func sharedGrants(users []User) []Grant {
	first, services := users[0].Grants, inside()
	return slices.DeleteFunc(slices.Clone(first), func(g Grant) bool {
		return slices.ContainsFunc(users, func(u User) bool {
			return slices.Contains(services, u.Name) && !slices.ContainsFunc(u.Grants, equals(g))
		})
	})
}

var layerStream = regexp.MustCompile(`_EXPERT-\d+_`)

// general names the streams of all layers alike.
func general(subjects []string) (out []string) {
	for _, s := range subjects {
		out = union(out, []string{layerStream.ReplaceAllString(s, "_EXPERT-<layer>_")})
	}
	return out
}

const matrixHead = `## Rights by subject

The server refuses a user everything else. A user in *italics* may do so for a part of the subject. One
exception is NATS's: where ` + "`a.*`" + ` is allowed, a server takes a subscription to ` + "`a.>`" + `, and that user then hears ` + "`a.b.c`" + ` too. ` + "`TestMatrix`" + ` (` + "`pkg/transport/credentials`" + `) tries every pair of subject
and user on a server, and each user on subjects outside of the table.

`

func writeMatrix(b *strings.Builder, users []User) {
	b.WriteString(matrixHead + "| subject | may publish | may subscribe |\n|---|---|---|\n")
	var rows []string
	for _, u := range users {
		rows = union(rows, general(append(u.Publish(), u.Subscribe()...)))
	}
	slices.Sort(rows)
	for _, subject := range rows {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", subject, allowed(users, subject, User.Publish), allowed(users, subject, User.Subscribe))
	}
	b.WriteString("\n")
}

// allowed names the users with a right for a subject, in italics those with one for a part of it.
func allowed(users []User, subject string, verb func(User) []string) string {
	var names []string
	for _, u := range users {
		switch has := general(verb(u)); {
		case Covers(has, subject):
			names = append(names, u.Name)
		case slices.ContainsFunc(has, func(a string) bool { return Covers([]string{subject}, a) }):
			names = append(names, "*"+u.Name+"*")
		}
	}
	return strings.Replace(strings.Join(names, ", "), strings.Join(inside(), ", "), "all services", 1)
}

const abuseHead = `## What each can do all the same

What a holder of one user's credentials can do by publishing. [Threats](threats.md) say what prevents more, and what JetStream can be made to send.

| credentials | can | cannot |
|---|---|---|
`

func writeAbuse(b *strings.Builder, users []User) {
	b.WriteString(abuseHead)
	for _, u := range users {
		fmt.Fprintf(b, "| %s | %s | %s |\n", u.Name, u.Can, u.Cannot)
	}
	b.WriteString("\n")
}

func writeGrants(b *strings.Builder, title string, grants []Grant) {
	fmt.Fprintf(b, "## %s\n\n| why | may publish | may subscribe |\n|---|---|---|\n", title)
	for _, g := range grants {
		fmt.Fprintf(b, "| %s | %s | %s |\n", g.Reason, codes(g.Publish), codes(g.Subscribe))
	}
	b.WriteString("\n")
}

// codes lists subjects, those of all layers as one.
func codes(subjects []string) string {
	var out []string
	for _, s := range general(subjects) {
		out = append(out, "`"+s+"`")
	}
	return strings.Join(out, " ")
}

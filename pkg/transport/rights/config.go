package rights

import (
	"fmt"
	"slices"
	"strings"
)

const configHead = `# Users and rights on a NATS server with passwords: what each service needs, and no
# more. docs/permissions.md has the same as a table, docs/threats.md says what an
# attacker with each of them can do.
#
#   nats-server -c permissions.conf        with the passwords in the environment
#
# Made by "switchyard auth show --format conf", which takes --models and --tenants:
# do not edit it. "switchyard auth init" makes keys, certificates and settings for the
# same rights instead. Each user has inboxes of its own: set inbox_prefix in its NATS
# context as the comment beside the user says.

port: 4222
jetstream { store_dir: /data }
write_deadline: "2s"   # clients that do not read are cut off then

accounts {
`

// Config is the users as settings of a NATS server that knows them by passwords.
func Config(s Scope) string {
	var b strings.Builder
	b.WriteString(configHead)
	bounds, crossings := s.Bounds.OrDefaults(), s.Crossings()
	for _, account := range s.Accounts() {
		fmt.Fprintf(&b, "  %s {\n", account)
		if account == ServicesAccount {
			b.WriteString("    jetstream: enabled\n")
		}
		if IsProducers(account) {
			fmt.Fprintf(&b, "    limits { max_payload: %d, max_subscriptions: %d, max_connections: %d }\n", bounds.Payload, bounds.Subs, bounds.Conns)
		}
		writeCrossings(&b, account, crossings)
		writeUsers(&b, s, account)
	}
	b.WriteString("}\n")
	return b.String()
}

func writeCrossings(b *strings.Builder, account string, all []Crossing) {
	var exports, imports []string
	for i, c := range all {
		kind := "stream"
		if c.Service {
			kind = "service"
		}
		if c.From == account && !slices.ContainsFunc(all[:i], sameExport(c)) {
			exports = append(exports, fmt.Sprintf("{ %s: %q, accounts: [ %s ] }", kind, c.Subject, strings.Join(importers(all, c), ", ")))
		}
		if c.To == account {
			as := ""
			if c.As != "" {
				as = fmt.Sprintf(", to: %q", c.As)
			}
			imports = append(imports, fmt.Sprintf("{ %s: { account: %s, subject: %q }%s }", kind, c.From, c.Subject, as))
		}
	}
	for _, list := range []struct {
		name  string
		items []string
	}{{"exports", exports}, {"imports", imports}} {
		fmt.Fprintf(b, "    %s = [\n      %s\n    ]\n", list.name, strings.Join(list.items, "\n      "))
	}
}

func sameExport(c Crossing) func(Crossing) bool {
	return func(o Crossing) bool { return o.From == c.From && o.Subject == c.Subject }
}

// importers are the accounts that import what a crossing does.
func importers(all []Crossing, c Crossing) (accounts []string) {
	for _, o := range all {
		if sameExport(c)(o) {
			accounts = append(accounts, o.To)
		}
	}
	return accounts
}

func writeUsers(b *strings.Builder, s Scope, account string) {
	b.WriteString("    users = [\n")
	for _, u := range Users(s) {
		if u.Account != account {
			continue
		}
		fmt.Fprintf(b, "    # %s; inbox_prefix %s\n", u.What, u.Inbox)
		fmt.Fprintf(b, "    { user: %s, password: $%s, permissions: {\n", u.Name, PasswordVariable(u.Name))
		writeAllowed(b, "publish", u.Grants, func(g Grant) []string { return g.Publish })
		writeAllowed(b, "subscribe", u.Grants, func(g Grant) []string { return g.Subscribe })
		b.WriteString("    } }\n")
	}
	b.WriteString("    ]\n  }\n")
}

// PasswordVariable is the variable in the environment that has a user's password.
func PasswordVariable(user string) string {
	return strings.ToUpper(strings.ReplaceAll(user, "-", "_")) + "_PASSWORD"
}

// writeAllowed writes a list, with each grant's reason above what it needs.
func writeAllowed(b *strings.Builder, verb string, grants []Grant, of func(Grant) []string) {
	fmt.Fprintf(b, "      %s: { allow: [\n", verb)
	for _, g := range grants {
		if subjects := of(g); len(subjects) > 0 {
			fmt.Fprintf(b, "        # %s\n", g.Reason)
			writeWrapped(b, subjects)
		}
	}
	b.WriteString("      ] }\n")
}

// lineWidth is where a list goes on in the next line.
const lineWidth = 120

func writeWrapped(b *strings.Builder, subjects []string) {
	const indent = "       "
	line := indent
	for _, s := range subjects {
		item := fmt.Sprintf(" %q,", s)
		if len(line)+len(item) > lineWidth && line != indent {
			b.WriteString(line + "\n")
			line = indent
		}
		line += item
	}
	b.WriteString(line + "\n")
}

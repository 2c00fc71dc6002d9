package rights

import (
	"fmt"
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

accounts {
`

// Settings of the accounts: what crosses between them, and what producers may take.
const (
	servicesConfig = `  %[1]s {
    jetstream: enabled
    # What producers publish here, JetStream acknowledges to a subject of the server's own.
    exports = [ { service: %[3]q, accounts: [ %[2]s ] } ]
    users = [
`
	producersConfig = `  # Nothing is stored here, and nothing but prompts leaves.
  %[2]s {
    imports = [ { service: { account: %[1]s, subject: %[3]q } } ]
    limits { max_payload: %[4]d, max_subscriptions: %[5]d, max_connections: %[6]d }
    users = [
`
)

// Config is the users as settings of a NATS server that knows them by passwords.
func Config(s Scope) string {
	var b strings.Builder
	b.WriteString(configHead)
	bounds := s.Bounds.OrDefaults()
	fmt.Fprintf(&b, servicesConfig, ServicesAccount, ProducersAccount, s.Crossing())
	writeUsers(&b, s, ServicesAccount)
	fmt.Fprintf(&b, producersConfig, ServicesAccount, ProducersAccount, s.Crossing(), bounds.Payload, bounds.Subs, bounds.Conns)
	writeUsers(&b, s, ProducersAccount)
	b.WriteString("}\n")
	return b.String()
}

// writeUsers writes those of an account, and its end.
func writeUsers(b *strings.Builder, s Scope, account string) {
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

package jsonschema

// Parts of formats.
const (
	date   = `(\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\d|3[01])|(0[469]|11)-(0[1-9]|[12]\d|30)|02-(0[1-9]|1\d|2[0-8]))|(\d\d(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29)`
	clock  = `([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([zZ]|[+-]([01]\d|2[0-3]):[0-5]\d)`
	octet  = `(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	label  = `[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?`
	atom   = "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
	group  = `[0-9a-fA-F]{1,4}`
	ipv4   = octet + `(\.` + octet + `){3}`
	bits32 = `(` + group + `:` + group + `|` + ipv4 + `)`
	escape = `%[0-9a-fA-F]{2}`
	scheme = `[a-zA-Z][a-zA-Z0-9+.-]*:`
	part   = `([a-zA-Z0-9._~!$&'()*+,;=:@-]|` + escape + `)+`
	behind = `([a-zA-Z0-9._~!$&'()*+,;=:@/?-]|` + escape + `)*`
)

// formats are those that strings are held to. Others say what a string is for.
var formats = map[string]string{
	"date":      date,
	"time":      clock,
	"date-time": date + `[tT]` + clock,
	"duration":  `P(\d+W|(\d+Y(\d+M(\d+D)?)?|\d+M(\d+D)?|\d+D)(T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))?|T(\d+H(\d+M(\d+S)?)?|\d+M(\d+S)?|\d+S))`,
	"uuid":      `[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`,
	"ipv4":      ipv4,
	"ipv6": `((` + group + `:){6}` + bits32 + `|::(` + group + `:){5}` + bits32 + `|(` + group + `)?::(` + group + `:){4}` + bits32 +
		`|((` + group + `:){0,1}` + group + `)?::(` + group + `:){3}` + bits32 + `|((` + group + `:){0,2}` + group + `)?::(` + group + `:){2}` + bits32 +
		`|((` + group + `:){0,3}` + group + `)?::` + group + `:` + bits32 + `|((` + group + `:){0,4}` + group + `)?::` + bits32 +
		`|((` + group + `:){0,5}` + group + `)?::` + group + `|((` + group + `:){0,6}` + group + `)?::)`,
	"hostname": label + `(\.` + label + `)*`,
	"email":    atom + `(\.` + atom + `)*@` + label + `(\.` + label + `)*`,
	"uri":      scheme + `(//[a-zA-Z0-9._~-]*(:[0-9]*)?(/` + part + `)*/?|` + part + `(/` + part + `)*)(\?` + behind + `)?(#` + behind + `)?`,
}

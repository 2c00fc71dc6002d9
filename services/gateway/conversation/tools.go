package conversation

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
)

// Function is a tool that a client can run.
type Function struct {
	Name string
	// Description and Parameters are nil where nothing is said of them.
	Description *string
	Parameters  json.RawMessage
	// More is what else its client says of it.
	More map[string]json.RawMessage
}

// Tool is the function in the one form that chat templates get, with its keys as chats have them.
func (f Function) Tool() json.RawMessage {
	var b bytes.Buffer
	b.WriteString(`{"type":"function","function":{"name":`)
	field := func(value any) {
		raw, _ := json.Marshal(value) // of what was JSON
		b.Write(raw)
	}
	field(f.Name)
	if f.Description != nil {
		b.WriteString(`,"description":`)
		field(*f.Description)
	}
	if f.Parameters != nil {
		b.WriteString(`,"parameters":`)
		field(f.Parameters)
	}
	for _, name := range slices.Sorted(maps.Keys(f.More)) {
		b.WriteByte(',')
		field(name)
		b.WriteByte(':')
		field(f.More[name])
	}
	b.WriteString("}}")
	return b.Bytes()
}

package calls

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Tool is one that a model may call.
type Tool struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
}

// Tools reads a JSON array of tools: functions, or objects that have one as their function.
func Tools(text string) (out []Tool, err error) {
	if text == "" {
		return nil, nil
	}
	var all []struct {
		Tool
		Function *Tool `json:"function"`
	}
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	for _, t := range all {
		if t.Function != nil {
			t.Tool = *t.Function
		}
		out = append(out, t.Tool)
	}
	return out, nil
}

// Choice is what a producer asks of calls.
type Choice struct {
	Forced bool
	Only   string // the tool that has to be called; empty: any
}

var errChoice = errors.New(`tool_choice is "auto", "required" or an object such as {"type":"function","function":{"name":"f"}}`)

// ReadChoice reads tool_choice, as a text or a JSON object.
func ReadChoice(text string) (c Choice, err error) {
	switch text {
	case "", "auto":
		return c, nil
	case "required":
		return Choice{Forced: true}, nil
	}
	var named struct {
		Type     string `json:"type"`
		Function Tool   `json:"function"`
	}
	if json.Unmarshal([]byte(text), &named) != nil || named.Type != "function" || named.Function.Name == "" {
		return c, errChoice
	}
	return Choice{Forced: true, Only: named.Function.Name}, nil
}

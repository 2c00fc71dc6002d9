package tokenizer

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/nikolalohinski/gonja/v2/builtins"
	"github.com/nikolalohinski/gonja/v2/exec"
	"github.com/nikolalohinski/gonja/v2/nodes"
	"github.com/nikolalohinski/gonja/v2/parser"
	"github.com/nikolalohinski/gonja/v2/tokens"
)

// A template comes from outside, and Go cannot recover from a stack that is
// full: whatever can nest or call itself needs a bound.
const (
	// maxSource bounds the template in bytes; the largest published ones have
	// some 20 KB. maxBrackets bounds how deep its brackets nest.
	maxSource, maxBrackets = 64 << 10, 256
	// maxFrames bounds the stack within a macro; a call takes some 30 frames.
	maxFrames = 6000
)

// checkSource refuses templates that the recursive parser might not survive.
func checkSource(source string) error {
	if len(source) > maxSource {
		return fmt.Errorf("it has %d bytes, above the limit of %d", len(source), maxSource)
	}
	depth := 0
	for i := range len(source) {
		switch source[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(depth-1, 0) // text may close what it never opened
		}
		if depth > maxBrackets {
			return fmt.Errorf("brackets are nested more than %d deep at byte %d", maxBrackets, i)
		}
	}
	return nil
}

// controlStructures are the engine's but those that read other templates or
// name parts of this one: transformers gives templates no files, and a block
// could hold itself.
func controlStructures() *exec.ControlStructureSet {
	set := map[string]parser.ControlStructureParser{}
	for _, name := range []string{"autoescape", "break", "call", "continue", "do", "filter", "for", "if", "raw", "set", "trans", "with"} {
		if parse, ok := builtins.ControlStructures.Get(name); ok {
			set[name] = parse
		}
	}
	set["macro"] = parseMacro
	return exec.NewControlStructureSet(set)
}

// parseMacro is the engine's, and puts a guard before every macro's body.
func parseMacro(p *parser.Parser, args *parser.Parser) (nodes.ControlStructure, error) {
	parse, ok := builtins.ControlStructures.Get("macro")
	if !ok {
		return nil, errors.New("the template engine has no macros")
	}
	out, err := parse(p, args)
	if err != nil {
		return nil, err
	}
	for name, macro := range p.Template.Macros {
		for _, arg := range macro.Kwargs {
			if !literal(arg.Value) { // it would be evaluated before the guard is
				return nil, fmt.Errorf("macro %s: default %s is not supported: it is no literal", name, arg.Value)
			}
		}
		if len(macro.Wrapper.Nodes) == 0 || !isGuard(macro.Wrapper.Nodes[0]) {
			block := &nodes.ControlStructureBlock{Location: macro.Location, Name: "guard", ControlStructure: guard{macro.Location}}
			macro.Wrapper.Nodes = append([]nodes.Node{block}, macro.Wrapper.Nodes...)
		}
	}
	return out, nil
}

func isGuard(node nodes.Node) bool {
	block, ok := node.(*nodes.ControlStructureBlock)
	return ok && block.Name == "guard"
}

func literal(node nodes.Expression) bool {
	switch n := node.(type) {
	case *nodes.String, *nodes.Integer, *nodes.Float, *nodes.Bool, *nodes.None, *nodes.Name:
		return true
	case *nodes.List:
		return len(n.Val) == 0
	case *nodes.Dict:
		return len(n.Pairs) == 0
	}
	return false
}

// guard stops a macro that calls itself without end.
type guard struct{ at *tokens.Token }

func (g guard) Position() *tokens.Token { return g.at }
func (g guard) String() string          { return "guard" }

// Execute implements exec.ControlStructure.
func (guard) Execute(*exec.Renderer, *nodes.ControlStructureBlock) error {
	var frame [1]uintptr
	if runtime.Callers(maxFrames, frame[:]) > 0 {
		return errors.New("macros call each other too deep")
	}
	return nil
}

package pushdown

import (
	"bytes"
	"cmp"
	"slices"
	"sync/atomic"
)

// Vocabulary has the bytes of tokens as a trie.
type Vocabulary struct {
	size  int
	nodes []trieNode // in preorder; the first is the root
	ids   []uint32   // of the tokens of nodes, in their order
	deep  int        // bytes of the longest token
	locals
	kept atomic.Int64 // bytes of grammars, and of what they are followed by
}

type trieNode struct {
	end   int32 // behind the nodes below
	first int32 // in ids; those of this node end where the next node's begin
	depth int32
	b     byte
}

// NewVocabulary makes a trie of so many tokens. bytesOf is a token's bytes; one without is never allowed.
func NewVocabulary(size int, bytesOf func(id uint32) []byte) *Vocabulary {
	type token struct {
		text []byte
		id   uint32
	}
	var all []token
	for id := range uint32(size) {
		if text := bytesOf(id); len(text) > 0 {
			all = append(all, token{text, id})
		}
	}
	slices.SortFunc(all, func(a, b token) int { return cmp.Or(bytes.Compare(a.text, b.text), cmp.Compare(a.id, b.id)) })
	v := &Vocabulary{size: size, nodes: []trieNode{{}}}
	open := []int32{0} // the nodes of the last token's bytes
	var last []byte
	for _, t := range all {
		common := 0
		for common < len(last) && common < len(t.text) && last[common] == t.text[common] {
			common++
		}
		v.close(open[common+1:])
		open = open[:common+1]
		for at := common; at < len(t.text); at++ {
			open = append(open, int32(len(v.nodes)))
			v.nodes = append(v.nodes, trieNode{first: int32(len(v.ids)), depth: int32(at + 1), b: t.text[at]})
		}
		v.ids = append(v.ids, t.id)
		last = t.text
		v.deep = max(v.deep, len(t.text))
	}
	v.close(open)
	return v
}

// close says that nothing more comes below nodes.
func (v *Vocabulary) close(open []int32) {
	for _, at := range open {
		v.nodes[at].end = int32(len(v.nodes))
	}
}

// Size returns how many tokens there are.
func (v *Vocabulary) Size() int { return v.size }

// tokens returns those of a node.
func (v *Vocabulary) tokens(at int32) []uint32 {
	if int(at)+1 < len(v.nodes) {
		return v.ids[v.nodes[at].first:v.nodes[at+1].first]
	}
	return v.ids[v.nodes[at].first:]
}

// below returns the tokens of a node and of those below it.
func (v *Vocabulary) below(at int32) []uint32 {
	if end := int(v.nodes[at].end); end < len(v.nodes) {
		return v.ids[v.nodes[at].first:v.nodes[end].first]
	}
	return v.ids[v.nodes[at].first:]
}

func (v *Vocabulary) words() int { return (v.size + 63) / 64 }

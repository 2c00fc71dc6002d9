package words

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/switchyard/switchyard/internal/testkit"
)

// english merges the letters of a few words.
func english() *BPE {
	a := &ByteAlphabet{Unk: NoPair}
	for i := range a.IDs {
		a.IDs[i] = uint32(i)
	}
	ids := map[string]uint32{}
	for i := range 256 {
		ids[string([]byte{byte(i)})] = uint32(i)
	}
	p := NewPairs(1)
	for i, token := range strings.Fields("th he in er an the re on at en nd ti es or te aa aaaa ==== == in ing tion tio io abab ab cd abcd ef gh efgh abcdefgh ij") {
		if _, ok := ids[token]; ok {
			continue
		}
		id := uint32(256 + i)
		ids[token] = id
		var at []int
		for k := 1; k < len(token); k++ {
			at = append(at, k)
		}
		p.AddSplits(token, uint32(i), id, at, func(part string) (uint32, bool) { id, ok := ids[part]; return id, ok })
	}
	return NewBPE(a, p, nil)
}

func symbols(m *BPE, word string) []uint32 { return m.alphabet.Symbols(nil, word) }

func TestLongWordsMergeLikeShortOnes(t *testing.T) {
	m := english()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringOfN(rapid.SampledFrom([]rune("aehinorst =abcdé")), 1, shortWord, shortWord).Draw(t, "word")
		short := m.mergeShort(symbols(m, word))
		if long := newLongWord(m.pairs, symbols(m, word)).merge(); !slices.Equal(short, long) {
			t.Fatalf("%q: short %v, long %v", word, short, long)
		}
	})
}

// A merge may lead to pairs that come before the rest of its rank, and to ones
// of the same rank; SentencePiece's equal scores do.
func TestMergesOutOfOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &BPE{pairs: NewPairs(1)}
		ranks := rapid.IntRange(1, 4).Draw(t, "ranks")
		for i := range rapid.IntRange(1, 12).Draw(t, "merges") {
			m.pairs.Add(rapid.Uint32Range(0, 8).Draw(t, "left"), rapid.Uint32Range(0, 8).Draw(t, "right"), uint32(i%ranks), rapid.Uint32Range(0, 8).Draw(t, "whole"))
		}
		word := rapid.SliceOfN(rapid.Uint32Range(0, 3), 1, shortWord).Draw(t, "word")
		short := m.mergeShort(slices.Clone(word))
		if long := newLongWord(m.pairs, slices.Clone(word)).merge(); !slices.Equal(short, long) {
			t.Fatalf("%v: short %v, long %v", word, short, long)
		}
	})
}

// Twice the text takes twice the work, not more.
func TestLongWordsTakeLinearTime(t *testing.T) {
	m, most := english(), 1<<20
	if testkit.Race {
		most >>= 3
	}
	for _, unit := range []string{" ", "\n", "a", "=", "ab", "the", "é", "abcdefghij"} {
		looks := func(size int) int {
			w := newLongWord(m.pairs, symbols(m, strings.Repeat(unit, size/len(unit))))
			w.merge()
			return w.looks
		}
		if one, two := looks(most/2), looks(most); two > 2*one+1000 || two > 8*most {
			t.Errorf("%q: %d looks at %d bytes, %d at %d", unit, one, most/2, two, most)
		}
	}
}

func TestCacheKeepsTheLastWord(t *testing.T) {
	m := english()
	m.cache = newCache(2)
	for _, word := range strings.Fields("one two three four five one two three") {
		fresh := m.merge(nil, word)
		if got := m.Encode(nil, word); !slices.Equal(got, fresh) {
			t.Errorf("%q: %v, want %v", word, got, fresh)
		}
		if got := m.Encode([]uint32{7}, word); !slices.Equal(got[1:], fresh) {
			t.Errorf("%q from the cache: %v, want %v", word, got, fresh)
		}
	}
}

func TestPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, want := NewPairs(0), map[[2]uint32][2]uint32{}
		id := rapid.Uint32Range(0, 20)
		for range rapid.IntRange(0, 200).Draw(t, "adds") {
			key, value := [2]uint32{id.Draw(t, "a"), id.Draw(t, "b")}, [2]uint32{id.Draw(t, "rank"), id.Draw(t, "id")}
			want[key] = value
			p.Add(key[0], key[1], value[0], value[1])
		}
		for a := range uint32(21) {
			for b := range uint32(21) {
				rank, whole := p.get(a, b)
				value, ok := want[[2]uint32{a, b}]
				if !ok {
					value = [2]uint32{NoPair, NoPair}
				}
				if value != [2]uint32{rank, whole} {
					t.Fatalf("%d and %d: got %d, %d, want %v", a, b, rank, whole, value)
				}
			}
		}
	})
}

// Cutting a text where no token reaches across changes nothing.
func TestCutBetweenTokens(t *testing.T) {
	tokens := strings.Fields("a b c é ▁ x ab abc ▁a ▁ab é▁ ▁▁ bc éé")
	ids, chars := map[string]uint32{}, map[rune]uint32{}
	for i, token := range tokens {
		ids[token] = uint32(i)
		if r := []rune(token); len(r) == 1 {
			chars[r[0]] = uint32(i)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a := NewRuneAlphabet(chars)
		a.Unk, a.Fuse = 99, rapid.Bool().Draw(t, "fuse")
		p := NewPairs(1)
		for i, token := range rapid.Permutation(tokens).Draw(t, "order") {
			var at []int
			for k := range token {
				if k > 0 {
					at = append(at, k)
				}
			}
			p.AddSplits(token, uint32(i), ids[token], at, func(part string) (uint32, bool) { id, ok := ids[part]; return id, ok })
		}
		whole, cut := NewBPE(a, p, nil), NewBPE(a, p, nil)
		cut.CutBetweenTokens(a, maps.Keys(ids))
		text := rapid.StringOf(rapid.SampledFrom([]rune("abcé▁x?😀"))).Draw(t, "text")
		if got, want := cut.Encode(nil, text), whole.Encode(nil, text); !slices.Equal(got, want) {
			t.Fatalf("%q: got %v, want %v", text, got, want)
		}
	})
}

// Each merge of a long run leads to one that comes before the rest, as those of
// blanks in SentencePiece files do: what is left of a rank must not be gone through
// each time.
func TestLongRunOutOfOrder(t *testing.T) {
	p := NewPairs(3)
	for i := range uint32(3) {
		p.Add(i, i, 3-i, i+1)
	}
	size := 1 << 20
	if testkit.Race {
		size >>= 4
	}
	got := newLongWord(p, make([]uint32, size)).merge()
	if len(got) != size/8 || slices.ContainsFunc(got, func(id uint32) bool { return id != 3 }) {
		t.Errorf("%d symbols became %d", size, len(got))
	}
}

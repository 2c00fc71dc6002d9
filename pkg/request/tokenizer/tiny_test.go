package tokenizer

import (
	"encoding/base64"
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// tinyPieces is a tokenizer.json as SentencePiece-style models have it.
const tinyPieces = `{"added_tokens":[{"id":0,"content":"<unk>","special":true},{"id":1,"content":"<s>","special":true}],
"normalizer":{"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},{"type":"Replace","pattern":{"String":" "},"content":"▁"}]},
"decoder":{"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},{"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]},
"model":{"type":"BPE","unk_token":"<unk>","fuse_unk":true,"vocab":{"<unk>":0,"<s>":1,"▁":2,"H":3,"i":4,"▁H":5,"Hi":6,"▁Hi":7},"merges":["H i","▁ Hi"]}}`

// tinyBERT is one as BERT has it.
const tinyBERT = `{"added_tokens":[{"id":0,"content":"[UNK]","special":true}],"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},
"decoder":{"type":"WordPiece","prefix":"##","cleanup":true},
"model":{"type":"WordPiece","unk_token":"[UNK]","vocab":{"[UNK]":0,"h":1,"##i":2,",":3,"ab":4,"##b":5,"a":6,"?":7}}}`

// tinyBytes is one of byte-level BPE.
const tinyBytes = `{"added_tokens":[{"id":9,"content":"<left>","lstrip":true,"special":true}],"normalizer":{"type":"NFC"},
"pre_tokenizer":{"type":"Sequence","pretokenizers":[{"type":"Digits"},{"type":"ByteLevel","add_prefix_space":true}]},
"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"<left>"}},{"Sequence":{"id":"A"}}],"special_tokens":{"<left>":{"ids":[9]}}},
"decoder":{"type":"ByteLevel"},"model":{"vocab":{"a":0,"b":1,"ab":2,"Ġ":3,"Ġa":4,"1":5},"merges":["a b",["Ġ","a"]]}}`

// tinySP is a small SentencePiece model; with bytes, it falls back to them.
func tinySP(bytes bool) *spFile {
	m := &spFile{trainer: map[protowire.Number]uint64{3: spBPE}, normal: map[protowire.Number]uint64{4: 0}}
	m.add("<unk>", 0, spUnknown)
	m.add("<s>", 0, spControl)
	m.add("[X]", 0, spUserDefined)
	for b := 0; bytes && b < 256; b++ {
		m.trainer[35] = 1
		m.add(nameOfByte(b), 0, spByte)
	}
	for i, text := range strings.Fields("▁a ab ▁ab ▁▁ H i Hi ▁ a b é") {
		m.add(text, -float32(i/2), spNormal)
	}
	return m
}

// spFile writes the fields of a ModelProto.
type spFile struct {
	pieces          []byte
	trainer, normal map[protowire.Number]uint64
	more            []byte
}

func (m *spFile) add(text string, score float32, kind spKind) {
	var p []byte
	p = protowire.AppendTag(p, 1, protowire.BytesType)
	p = protowire.AppendString(p, text)
	p = protowire.AppendTag(p, 2, protowire.Fixed32Type)
	p = protowire.AppendFixed32(p, math.Float32bits(score))
	p = protowire.AppendTag(p, 3, protowire.VarintType)
	p = protowire.AppendVarint(p, uint64(kind))
	m.pieces = protowire.AppendTag(m.pieces, 1, protowire.BytesType)
	m.pieces = protowire.AppendBytes(m.pieces, p)
}

func (m *spFile) bytes() []byte {
	all := append([]byte{}, m.pieces...)
	for number, fields := range map[protowire.Number]map[protowire.Number]uint64{2: m.trainer, 3: m.normal} {
		var b []byte
		for field, value := range fields {
			b = protowire.AppendTag(b, field, protowire.VarintType)
			b = protowire.AppendVarint(b, value)
		}
		all = protowire.AppendTag(all, number, protowire.BytesType)
		all = protowire.AppendBytes(all, b)
	}
	return append(all, m.more...)
}

// tinyRanks is a rank file with all bytes.
func tinyRanks() []byte {
	var b strings.Builder
	for i := range 256 {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	return []byte(b.String())
}

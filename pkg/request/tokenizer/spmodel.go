package tokenizer

import (
	"errors"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// spModel is what matters of a SentencePiece file.
//
// Source: sentencepiece_model.proto of google/sentencepiece, message ModelProto;
// the numbers below are its field numbers.
type spModel struct {
	pieces             []spPiece
	kind               uint64 // model_type
	byteFallback       bool
	spaceAfter         bool // treat_whitespace_as_suffix
	unkSurface         string
	charsMap           int // bytes of precompiled_charsmap
	dummyPrefix        bool
	removeExtraSpaces  bool
	escapeSpaces       bool
	hasDenormalization bool
}

type spPiece struct {
	text  string
	score float32
	kind  spKind
}

type spKind uint64

const (
	spNormal spKind = 1 + iota
	spUnknown
	spControl
	spUserDefined
	spUnused
	spByte
)

const spBPE = 2 // model_type

// fieldFunc takes one field: its number, its bytes if it has a length, and else
// its value.
type fieldFunc func(number protowire.Number, data []byte, value uint64) error

// eachField reads the fields of one message; nothing is copied.
func eachField(message []byte, take fieldFunc) error {
	for len(message) > 0 {
		number, wire, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("reading a field's number: %w", protowire.ParseError(n))
		}
		message = message[n:]
		var data []byte
		var value uint64
		switch wire {
		case protowire.BytesType:
			data, n = protowire.ConsumeBytes(message)
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(message)
			value = uint64(v)
		default:
			n = protowire.ConsumeFieldValue(number, wire, message)
		}
		if n < 0 {
			return fmt.Errorf("reading field %d: %w", number, protowire.ParseError(n))
		}
		message = message[n:]
		if err := take(number, data, value); err != nil {
			return err
		}
	}
	return nil
}

func parseSP(data []byte) (*spModel, error) {
	m := &spModel{kind: 1, unkSurface: " \u2047 ", dummyPrefix: true, removeExtraSpaces: true, escapeSpaces: true}
	err := eachField(data, func(number protowire.Number, data []byte, _ uint64) error {
		switch number {
		case 1:
			return m.readPiece(data)
		case 2:
			return eachField(data, m.trainerField)
		case 3:
			return eachField(data, m.normalizerField)
		case 5:
			m.hasDenormalization = m.hasDenormalization || len(data) > 0
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("piece %d or after it: %w", len(m.pieces), err)
	}
	return m, m.check()
}

func (m *spModel) readPiece(data []byte) error {
	p := spPiece{kind: spNormal}
	err := eachField(data, func(number protowire.Number, data []byte, value uint64) error {
		switch number {
		case 1:
			p.text = string(data)
		case 2:
			p.score = math.Float32frombits(uint32(value))
		case 3:
			p.kind = spKind(value)
		}
		return nil
	})
	m.pieces = append(m.pieces, p)
	return err
}

func (m *spModel) trainerField(number protowire.Number, data []byte, value uint64) error {
	switch number {
	case 3:
		m.kind = value
	case 24:
		m.spaceAfter = value != 0
	case 35:
		m.byteFallback = value != 0
	case 44:
		m.unkSurface = string(data)
	}
	return nil
}

func (m *spModel) normalizerField(number protowire.Number, data []byte, value uint64) error {
	switch number {
	case 2:
		m.charsMap = len(data)
	case 3:
		m.dummyPrefix = value != 0
	case 4:
		m.removeExtraSpaces = value != 0
	case 5:
		m.escapeSpaces = value != 0
	}
	return nil
}

// check refuses by name what would change ids and is not supported.
func (m *spModel) check() error {
	switch {
	case len(m.pieces) == 0:
		return errors.New("it has no pieces")
	case m.kind != spBPE:
		kinds := map[uint64]string{1: "UNIGRAM", 3: "WORD", 4: "CHAR"}
		return fmt.Errorf("model_type %d %s is not supported; only BPE is", m.kind, kinds[m.kind])
	case m.charsMap > 0:
		return errors.New("precompiled_charsmap (normalisation by a table) is not supported")
	case m.removeExtraSpaces:
		return errors.New("remove_extra_whitespaces is not supported")
	case m.spaceAfter:
		return errors.New("treat_whitespace_as_suffix is not supported")
	case !m.escapeSpaces:
		return errors.New("escape_whitespaces false is not supported")
	case m.hasDenormalization:
		return errors.New("denormalizer_spec is not supported")
	}
	return m.checkPieces()
}

func (m *spModel) checkPieces() error {
	seen := make(map[string]bool, len(m.pieces))
	for i, p := range m.pieces {
		switch {
		case p.text == "":
			return fmt.Errorf("piece %d is empty", i)
		case len(p.text) > maxToken:
			return fmt.Errorf("piece %d has %d bytes, more than %d", i, len(p.text), maxToken)
		case seen[p.text]:
			return fmt.Errorf("piece %d, %q, was there before", i, p.text)
		case p.kind < spNormal || p.kind > spByte || p.kind == spUnused:
			return fmt.Errorf("piece %d, %q, has type %d, which is not supported", i, p.text, p.kind)
		case p.score != p.score:
			return fmt.Errorf("piece %d, %q, has no number as its score", i, p.text)
		}
		seen[p.text] = true
	}
	return nil
}

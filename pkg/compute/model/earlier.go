package model

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

const (
	// earlierWhole is up to how many bytes of weights an EarlierHash covers every byte.
	earlierWhole = 64 << 20
	// Above it, earlierBlocks blocks of earlierBlock bytes a file are sampled.
	earlierBlocks, earlierBlock = 256, 4096
)

// EarlierHash is the hash that schema version 1 had of the same files: what was accepted
// under it was for this model. Empty: the model is not in files, and that version knew
// none of this kind. It reads some of the weights, which must still be open.
func (m *Model) EarlierHash() string {
	c, ok := m.source.(*checkpoint)
	if !ok || m.Hash == "" {
		return ""
	}
	h := sha256.New()
	earlierPart(h, c.config)
	var total int64
	var files []*safetensors.File
	for _, f := range c.files {
		known, ok := f.weightFile.(*safetensors.File)
		if !ok {
			return ""
		}
		files, total = append(files, known), total+known.Size()
	}
	for i, f := range files {
		earlierPart(h, []byte(c.files[i].name))
		earlierPart(h, f.Header())
		earlierPart(h, binary.LittleEndian.AppendUint64(nil, uint64(f.Size())))
		if total <= earlierWhole {
			h.Write(f.Body())
		} else {
			sampled(h, f.Body())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// earlierPart writes a part with its length, so that parts cannot run together.
func earlierPart(h hash.Hash, part []byte) {
	h.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(part))))
	h.Write(part)
}

// sampled writes evenly spaced blocks, the first and the last among them.
func sampled(h hash.Hash, body []byte) {
	if len(body) <= earlierBlocks*earlierBlock {
		h.Write(body)
		return
	}
	last := int64(len(body) - earlierBlock)
	for i := range int64(earlierBlocks) {
		at := last * i / (earlierBlocks - 1)
		h.Write(body[at : at+earlierBlock])
	}
}

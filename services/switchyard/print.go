package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protojson"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// chunkPrinter writes an answer as text or as JSON lines.
type chunkPrinter struct {
	w    io.Writer
	json bool
	last byte // of the text so far
	// ids are the tokens of an answer without text: those of a model that has
	// no tokenizer are shown in its place.
	ids []string
	// broken is why nothing can be written any more.
	broken error
}

var chunkJSON = protojson.MarshalOptions{UseProtoNames: true, EmitUnpopulated: true}

// print writes a chunk, unless writing has failed before.
func (p *chunkPrinter) print(c *pb.Chunk) {
	if p.json {
		p.printJSON(c)
		return
	}
	for _, id := range c.TokenIds {
		p.ids = append(p.ids, strconv.FormatUint(uint64(id), 10))
	}
	if c.Text != "" {
		p.last = c.Text[len(c.Text)-1]
		p.write([]byte(c.Text))
	}
}

func (p *chunkPrinter) printJSON(c *pb.Chunk) {
	var line bytes.Buffer // protojson varies its white space on purpose
	data, err := chunkJSON.Marshal(c)
	if err == nil {
		err = json.Compact(&line, data)
	}
	if err != nil {
		p.broken = fmt.Errorf("encoding a chunk: %w", err)
		return
	}
	line.WriteByte('\n')
	p.write(line.Bytes())
}

// finish ends the last line of text.
func (p *chunkPrinter) finish() {
	switch {
	case p.last == 0 && len(p.ids) > 0:
		p.write([]byte(strings.Join(p.ids, " ") + "\n"))
	case p.last != 0 && p.last != '\n':
		p.write([]byte{'\n'})
	}
}

func (p *chunkPrinter) write(data []byte) {
	if p.broken != nil {
		return
	}
	if _, err := p.w.Write(data); err != nil {
		p.broken = fmt.Errorf("writing the answer: %w", err)
	}
}

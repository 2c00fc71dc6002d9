package expertmap

import "github.com/switchyard/switchyard/kernels/cpu"

// codec says how values of a format are held.
type codec struct {
	*cpu.Table // without outputs; nil where there are no values
	exact      bool
}

func newCodec(values int, f Format) codec {
	if values == 0 {
		return codec{}
	}
	return codec{cpu.NewTable(values, formats[f]), f == F32}
}

// held is v as it is held, in into if that differs; b is room for the encoding.
func (c codec) held(into, v []float32, b []byte) (held []float32, room []byte) {
	if c.exact {
		return v, b
	}
	b = c.Encode(b[:0], v)
	into = into[:len(v)]
	c.Decode(into, b)
	return into, b
}

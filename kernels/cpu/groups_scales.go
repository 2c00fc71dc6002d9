package cpu

import (
	"encoding/binary"
	"fmt"
)

// Scales that a file may have, without their signs, beside zero: those of which codes make exact float32s, and a little
// more than Quantise makes. Kernels that decode with whole numbers rest on them: see basedRaise.
const (
	leastScale = (127 - 90) << 7 // 2^-90
	mostScale  = (127 + 98) << 7 // 2^98
)

func checkScale(bf uint16) error {
	if size := bf &^ (1 << 15); size != 0 && (size < leastScale || size > mostScale) {
		return fmt.Errorf("a scale is %v: it must be 0, or of a size from 2^-90 to 2^98", widened(bf))
	}
	return nil
}

// packScales writes those of a panel, and refuses what checkScale does.
func (m *Matrix) packScales(panel int, rows [][]byte, f Format) error {
	groups := m.K / QGroup
	steps := m.steps[panel*groups*PanelWidth:][:groups*PanelWidth]
	if len(rows) < PanelWidth {
		clear(steps)
	}
	for j, row := range rows {
		for g := turnScales(steps[j:], row, f); g < groups; g++ {
			step := binary.LittleEndian.Uint16(row[2*g:])
			if err := checkScale(step); err != nil {
				return &OutputError{panel*PanelWidth + j, fmt.Errorf("input %d: %w", g*QGroup, err)}
			}
			steps[g*PanelWidth+j] = storedStep(step, f)
		}
	}
	return nil
}

// turnScales writes an output's first scales, four at a time, and returns how many. It ends before some of which one is
// zero, or to be refused.
func turnScales(steps []uint16, row []byte, f Format) (groups int) {
	const each = 0x0001_0001_0001_0001 // 1 in each lane of 16 bits
	const top, low = each << 15, each * (1<<15 - 1)
	less := uint64(0)
	if f == W4A8 {
		less = each * (4 << 7) // as storedStep has it
	}
	for ; len(row) >= 8 && len(steps) > 3*PanelWidth; row, groups = row[8:], groups+4 {
		four := binary.LittleEndian.Uint64(row)
		size := four & low // sums carry nothing into the next lane
		if good := (size + each*(1<<15-leastScale)) &^ (size + each*(1<<15-1-mostScale)); good&top != top {
			return groups
		}
		four -= less
		steps[0], steps[PanelWidth] = uint16(four), uint16(four>>16)
		steps[2*PanelWidth], steps[3*PanelWidth] = uint16(four>>32), uint16(four>>48)
		steps = steps[min(len(steps), 4*PanelWidth):]
	}
	return groups
}

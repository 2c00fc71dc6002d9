package fake

import "github.com/switchyard/switchyard/kernels/cuda"

// randomWeights makes a tensor of random numbers, each on its own.
func randomWeights(m *Memory, l *cuda.Launch) {
	a := l.Args
	n, k, kp, tensors, tensor := int(a[3]), int(a[4]), int(a[5]), int(a[6]), int(a[7])
	numbers := View[uint16](m, cuda.Ptr(a[1]), 4096)
	rows := n
	if tensors > 0 {
		rows = (n + 63) / 64 * 64
	}
	to := View[uint16](m, cuda.Ptr(a[0]), max(1, tensors)*rows*kp)
	for i := range rows * kp {
		row, column, at, number := i/kp, i%kp, i, uint16(0)
		if row < n && column < k {
			number = numbers[choice(a[2], row*k+column, n*k)]
		}
		if tensors > 0 {
			at = tileAt((row/8*tensors+tensor)*8+row%8, column, kp)
		}
		to[at] = number
	}
}

// choice returns which of the numbers element i of n is.
func choice(stream uint64, i, n int) uint64 {
	if whole := n / 4 * 4; i >= whole {
		return splitmix(stream, whole/4+i-whole) % 4096
	}
	return splitmix(stream, i/4) >> (i % 4 * 12) % 4096
}

func splitmix(stream uint64, i int) uint64 {
	z := stream + uint64(i+1)*0x9e3779b97f4a7c15
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

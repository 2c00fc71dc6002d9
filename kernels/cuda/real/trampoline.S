//go:build cuda

// One jump for each function of the driver, in the order of symbols.h, so that
// linking needs no libcuda. They are hidden: a libcuda that somebody else loads is
// not disturbed.
	.text
	.macro trampoline name
	.globl \name
	.hidden \name
	.type \name, @function
\name:
	jmp *switchyard_cuda_table + 8*\@(%rip)
	.size \name, . - \name
	.endm

#define SYMBOL(name) trampoline name;
#include "symbols.h"

	.hidden switchyard_cuda_table
	.section .note.GNU-stack,"",@progbits

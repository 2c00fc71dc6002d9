// Package speeds measures what an expert takes with the processors that so much memory of a serverless
// platform has, and keeps that in files: curves of T(memory, rows), each with the fit of Remoe's
// T(y) = θ1·exp(-θ2·y) + θ3 (section IV-E, figure 6).
//
// A function of half a processor has it half of the time. Here that is a quota inside this process: as
// many threads as there are begun processors, which stand still as soon as they have used up their share
// of a period, as a kernel's bandwidth control has it. Sizes with more processors than the machine are
// not measured: they have what the fit says, and are marked as extrapolated.
package speeds

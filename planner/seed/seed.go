// Package seed derives seeds and random numbers from others, the same ones on every machine.
package seed

// Golden is 2^64 over the golden ratio: its multiples are spread over all numbers.
const Golden = 0x9e3779b97f4a7c15

// Repetition is the seed of a repetition, from 0, of a run that has a seed.
func Repetition(seed uint64, n int) uint64 { return seed + uint64(n)*Golden }

// Mix is the number after x of splitmix64 (Steele, Lea and Flood 2014).
func Mix(x uint64) uint64 { return Spread(x + Golden) }

// Spread spreads the bits of x: the finalizer of splitmix64.
func Spread(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Fraction makes a random number one on [0, 1).
func Fraction(x uint64) float64 { return float64(x>>11) / (1 << 53) }

// Command gantry runs and simulates workflows on one host or on the nodes of a Slurm allocation.
package main

import "gantry/cmd"

func main() { cmd.Main() }

# Sourced by the scripts that make images.
export DOCKER_HOST=${DOCKER_HOST:-unix:///var/run/docker.sock}

# engine CMD...: the docker command, through sudo where only root may use the socket.
engine() {
	if [[ $DOCKER_HOST == unix://* && -S ${DOCKER_HOST#unix://} && ! -w ${DOCKER_HOST#unix://} ]] && command -v sudo >/dev/null; then
		sudo DOCKER_HOST="$DOCKER_HOST" docker "$@"
	else
		docker "$@"
	fi
}

#define UIDS "GANTRY_USERNS_UIDS"
#define GIDS "GANTRY_USERNS_GIDS"
#define HOST_NOT_USABLE 4 // the exit code
#define MOST_RANGES 8

int gantry_in_userns(void);

# Completion of pi-chrome for bash. Put this into your ~/.bashrc:
#   source <(pi-chrome completion bash)
_pi_chrome() {
  local line program=${COMP_WORDS[0]/#\~/$HOME}
  COMPREPLY=()
  while IFS= read -r line; do
    case $line in
      :files) compopt -o default 2>/dev/null ;;
      :folders) compopt -o dirnames 2>/dev/null ;;
      *) COMPREPLY+=("$line") ;;
    esac
  done < <("$program" __complete -- bash "${COMP_WORDS[@]:1:COMP_CWORD-1}" "=${COMP_WORDS[COMP_CWORD]}" 2>/dev/null)
  # What ends with "=" wants its value at once.
  if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -F _pi_chrome pi-chrome

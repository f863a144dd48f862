# Completion of pi-chrome for PowerShell. Put this into your $PROFILE:
#   pi-chrome completion powershell | Out-String | Invoke-Expression
Register-ArgumentCompleter -Native -CommandName @('pi-chrome', 'pi-chrome.exe') -ScriptBlock {
    param($wordToComplete, $commandAst, $cursorPosition)
    $words = @($commandAst.CommandElements |
        Where-Object { $_.Extent.EndOffset -lt $cursorPosition -or ($_.Extent.EndOffset -eq $cursorPosition -and $wordToComplete -eq '') } |
        ForEach-Object { if ($_ -is [System.Management.Automation.Language.StringConstantExpressionAst]) { $_.Value } else { $_.ToString() } })
    $rest = @($words | Select-Object -Skip 1)
    & $words[0] __complete '--' powershell @rest "=$wordToComplete" 2>$null | ForEach-Object {
        $value, $about = $_ -split "`t", 2
        if ($value -eq ':files' -or $value -eq ':folders') { return } # its own completion of paths
        if (-not $about) { $about = $value }
        [System.Management.Automation.CompletionResult]::new($value, $value, 'ParameterValue', $about)
    }
}
